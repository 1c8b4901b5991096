(* L2 from L1 (T3a): what leaves the residual update has been applied. *)
From Onebit Require Import Prelude. From Onebit Require T3a.

Theorem T3e :
  forall (n_workers : nat) (step : nat) (k : nat) (params : nat -> nat -> R) (grads : nat -> nat -> nat -> R) (momentum : nat -> nat -> R) (worker_errors : nat -> nat -> nat -> R) (server_error : nat -> nat -> R) (messages : nat -> nat -> nat -> R) (virtual_iterate : nat -> nat -> R) (preconditioner : nat -> R) (beta1 : R) (lr : R),
  forall (n_workers_domain : (1 <= n_workers)%nat),
  forall (beta1_domain : 0 < beta1 /\ beta1 < 1),
  forall (lr_domain : 0 < lr),
  forall (worker_feedback : forall i : nat, (i < n_workers)%nat -> (worker_errors (step + 1)%nat i k) = ((beta1 * (momentum step k)) + ((1 - beta1) * (grads (step + 1)%nat i k)) + (worker_errors step i k) - (messages (step + 1)%nat i k))),
  forall (server_feedback : (server_error (step + 1)%nat k) = (((bigsum n_workers (fun i => (messages (step + 1)%nat i k))) / (INR n_workers)) + (server_error step k) - (momentum (step + 1)%nat k))),
  forall (parameters : (params (step + 1)%nat k) = ((params step k) - (lr * (momentum (step + 1)%nat k) * (preconditioner k)))),
  forall (virtual : forall s : nat, (virtual_iterate s k) = ((params s k) - ((lr * ((beta1 * (momentum s k)) + ((bigsum n_workers (fun i => (worker_errors s i k))) / (INR n_workers)) + (server_error s k)) * (preconditioner k)) / (1 - beta1)))),
  (virtual_iterate (step + 1)%nat k) = ((virtual_iterate step k) - ((lr * (preconditioner k) * (bigsum n_workers (fun i => (grads (step + 1)%nat i k)))) / (INR n_workers))).
Proof.
  intros n_workers step k params grads momentum worker_errors server_error messages virtual_iterate preconditioner
    beta1 lr n_workers_domain beta1_domain lr_domain worker_feedback server_feedback parameters virtual.
  assert (workers : INR n_workers <> 0) by (apply not_0_INR; lia).
  pose proof (T3a.T3a n_workers step k grads momentum worker_errors server_error messages beta1 n_workers_domain
    beta1_domain worker_feedback server_feedback) as conserved.
  rewrite !virtual, parameters.
  match type of conserved with ?left + ?m + ?e = ?right => replace left with (right - m - e) by lra end.
  field. lra.
Qed.
