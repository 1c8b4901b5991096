(* T10d, with each chunk's blocks rounded up. *)
From Onebit Require Import Prelude Messages.

Theorem T10e :
  forall (n_workers : nat) (dim : nat) (sent : nat -> R) (message : nat -> R) (length : nat -> R) (blocks : nat -> R) (block : nat),
  forall (n_workers_domain : (1 <= n_workers)%nat),
  forall (dim_domain : (1 <= dim)%nat),
  forall (block_domain : (1 <= block)%nat),
  forall (sent_by_worker : forall i : nat, (i < n_workers)%nat -> (sent i) = ((((INR n_workers) - 1) * (message i)) + (bigsum n_workers (fun j => (message j))) - (message i))),
  forall (payload : forall j : nat, (j < n_workers)%nat -> (message j) = ((4 * (blocks j)) + ((length j) / 8))),
  forall (all_elements : (bigsum n_workers (fun j => (length j))) = (INR dim)),
  forall (rounded_up : forall j : nat, (j < n_workers)%nat -> (blocks j) <= (1 + ((length j) / (INR block)))),
  ((bigsum n_workers (fun i => (sent i))) / (INR n_workers)) <= ((((2 * (INR n_workers)) - 2) * (((INR dim) / 8) + (4 * (INR n_workers)) + ((4 * (INR dim)) / (INR block)))) / (INR n_workers)).
Proof.
  intros n_workers dim sent message length blocks block n_workers_domain dim_domain block_domain sent_by_worker
    payload all_elements rounded_up.
  assert (B : 0 < INR block) by (apply lt_0_INR; lia).
  assert (N : 1 <= INR n_workers) by (change 1 with (INR 1); apply le_INR; lia).
  rewrite (bytes_sent n_workers sent message length blocks dim sent_by_worker payload all_elements).
  assert (all : bigsum n_workers blocks <= INR n_workers + INR dim / INR block).
  { apply (Rle_trans _ (bigsum n_workers (fun j => 1 + / INR block * length j))).
    - apply bigsum_le. intros j below. assert (H := rounded_up j below). unfold Rdiv in H. lra.
    - rewrite bigsum_plus, bigsum_const, (bigsum_scal _ (/ INR block) (fun j => length j)), all_elements. unfold Rdiv. lra. }
  apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; lra|]. rewrite (Rmult_comm (2 * INR n_workers - 2)).
  apply Rmult_le_compat_r; [lra|]. replace (4 * INR dim / INR block) with (4 * (INR dim / INR block)) by (field; lra). lra.
Qed.
