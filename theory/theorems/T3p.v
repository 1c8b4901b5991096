(* L1 between nodes: the sum over all workers is that over the nodes of their own sums. *)
From Onebit Require Import Prelude.

Theorem T3p :
  forall (n_workers : nat) (step : nat) (k : nat) (grads : nat -> nat -> nat -> R) (momentum : nat -> nat -> R) (worker_errors : nat -> nat -> nat -> R) (server_error : nat -> nat -> R) (messages : nat -> nat -> nat -> R) (beta1 : R) (nodes : nat) (node_size : nat),
  forall (n_workers_domain : (1 <= n_workers)%nat),
  forall (beta1_domain : 0 < beta1 /\ beta1 < 1),
  forall (nodes_domain : (1 <= nodes)%nat),
  forall (node_size_domain : (1 <= node_size)%nat),
  forall (all_workers : (n_workers = (node_size * nodes)%nat)%nat),
  forall (node_feedback : forall i : nat, (i < nodes)%nat -> (worker_errors (step + 1)%nat i k) = ((beta1 * (momentum step k)) + (((1 - beta1) * (bigsum node_size (fun j => (grads (step + 1)%nat (j + (i * node_size)%nat)%nat k)))) / (INR node_size)) + (worker_errors step i k) - (messages (step + 1)%nat i k))),
  forall (server_feedback : (server_error (step + 1)%nat k) = (((bigsum nodes (fun i => (messages (step + 1)%nat i k))) / (INR nodes)) + (server_error step k) - (momentum (step + 1)%nat k))),
  (((bigsum nodes (fun i => (worker_errors (step + 1)%nat i k))) / (INR nodes)) + (momentum (step + 1)%nat k) + (server_error (step + 1)%nat k)) = ((beta1 * (momentum step k)) + ((bigsum nodes (fun i => (worker_errors step i k))) / (INR nodes)) + (((1 - beta1) * (bigsum n_workers (fun i => (grads (step + 1)%nat i k)))) / (INR n_workers)) + (server_error step k)).
Proof.
  intros n_workers step k grads momentum worker_errors server_error messages beta1 nodes node_size n_workers_domain
    beta1_domain nodes_domain node_size_domain all_workers node_feedback server_feedback.
  assert (some : INR nodes <> 0) by (apply not_0_INR; lia). assert (sized : INR node_size <> 0) by (apply not_0_INR; lia).
  assert (two_parts : forall a b f, bigsum (b + a) f = bigsum a f + bigsum b (fun j => f (j + a)%nat)).
  { intros a b f. induction b; simpl; [lra|]. rewrite IHb. lra. }
  assert (by_node : forall m f,
    bigsum (node_size * m) f = bigsum m (fun i => bigsum node_size (fun j => f (j + i * node_size)%nat))).
  { induction m; intros f; [rewrite Nat.mul_0_r; reflexivity|].
    replace (node_size * S m)%nat with (node_size + node_size * m)%nat by lia. rewrite two_parts, IHm. simpl.
    f_equal. apply bigsum_ext. intros j _. f_equal. lia. }
  set (total := fun i => bigsum node_size (fun j => grads (step + 1)%nat (j + i * node_size)%nat k)).
  rewrite (bigsum_ext nodes (fun i => worker_errors (step + 1)%nat i k) (fun i => beta1 * momentum step k
    + (1 - beta1) / INR node_size * total i + worker_errors step i k - messages (step + 1)%nat i k))
    by (intros i below; rewrite node_feedback by exact below; unfold total; field; exact sized).
  rewrite server_feedback, all_workers, mult_INR, by_node. fold total.
  rewrite bigsum_minus, !bigsum_plus, bigsum_const, bigsum_scal. field. split; assumption.
Qed.
