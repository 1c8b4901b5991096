(* L2's defect is the change of the rate times the residual update (as in T3k); the clip bounds the change. *)
From Onebit Require Import Prelude. From Onebit Require T3c.

Theorem T3g :
  forall (n_workers : nat) (step : nat) (k : nat) (params : nat -> nat -> R) (grads : nat -> nat -> nat -> R) (momentum : nat -> nat -> R) (worker_errors : nat -> nat -> nat -> R) (server_error : nat -> nat -> R) (messages : nat -> nat -> nat -> R) (virtual_iterate : nat -> nat -> R) (preconditioner : nat -> R) (beta1 : R) (layer_scale : R) (learning_rates : nat -> R) (trust_change : R),
  forall (n_workers_domain : (1 <= n_workers)%nat),
  forall (beta1_domain : 0 < beta1 /\ beta1 < 1),
  forall (layer_scale_domain : 0 < layer_scale),
  forall (trust_change_domain : 0 < trust_change /\ trust_change < 1),
  forall (worker_feedback : forall i : nat, (i < n_workers)%nat -> (worker_errors (step + 1)%nat i k) = ((layer_scale * ((beta1 * (momentum step k)) + ((1 - beta1) * (grads (step + 1)%nat i k)))) + (worker_errors step i k) - (messages (step + 1)%nat i k))),
  forall (server_feedback : (server_error (step + 1)%nat k) = (((bigsum n_workers (fun i => (messages (step + 1)%nat i k))) / (INR n_workers)) + (server_error step k) - (layer_scale * (momentum (step + 1)%nat k)))),
  forall (parameters : (params (step + 1)%nat k) = ((params step k) - ((learning_rates (step + 1)%nat) * (momentum (step + 1)%nat k) * (preconditioner k)))),
  forall (virtual : forall s : nat, (virtual_iterate s k) = ((params s k) - ((((beta1 * (momentum s k)) + ((((bigsum n_workers (fun i => (worker_errors s i k))) / (INR n_workers)) + (server_error s k)) / layer_scale)) * (learning_rates (s + 1)%nat) * (preconditioner k)) / (1 - beta1)))),
  forall (trust_clip : forall s : nat, (Rabs ((learning_rates (s + 1)%nat) - (learning_rates s))) <= (trust_change * (learning_rates s))),
  (Rabs ((((learning_rates (step + 1)%nat) * (preconditioner k) * (bigsum n_workers (fun i => (grads (step + 1)%nat i k)))) / (INR n_workers)) + (virtual_iterate (step + 1)%nat k) - (virtual_iterate step k))) <= ((trust_change * (Rabs (((beta1 * (momentum (step + 1)%nat k)) + ((((bigsum n_workers (fun i => (worker_errors (step + 1)%nat i k))) / (INR n_workers)) + (server_error (step + 1)%nat k)) / layer_scale)) * (preconditioner k))) * (learning_rates (step + 1)%nat)) / (1 - beta1)).
Proof.
  intros n_workers step k params grads momentum worker_errors server_error messages virtual_iterate preconditioner
    beta1 layer_scale learning_rates trust_change n_workers_domain beta1_domain layer_scale_domain
    trust_change_domain worker_feedback server_feedback parameters virtual trust_clip.
  assert (workers : INR n_workers <> 0) by (apply not_0_INR; lia).
  pose proof (T3c.T3c n_workers step k grads momentum worker_errors server_error messages beta1 layer_scale
    n_workers_domain beta1_domain layer_scale_domain worker_feedback server_feedback) as conserved.
  rewrite !virtual, parameters. specialize (trust_clip (step + 1)%nat).
  set (rate := learning_rates (step + 1)%nat) in *. set (next := learning_rates (step + 1 + 1)%nat) in *.
  set (after := (bigsum n_workers (fun i => worker_errors (step + 1)%nat i k) / INR n_workers
    + server_error (step + 1)%nat k) / layer_scale) in *.
  set (before := (bigsum n_workers (fun i => worker_errors step i k) / INR n_workers + server_error step k)
    / layer_scale) in *.
  set (G := bigsum n_workers (fun i => grads (step + 1)%nat i k)) in *.
  match goal with |- Rabs ?miss <= _ =>
    replace miss with (- ((next - rate) / (1 - beta1)
      * ((beta1 * momentum (step + 1)%nat k + after) * preconditioner k)))
  end.
  - rewrite Rabs_Ropp, Rabs_mult. unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ (1 - beta1))).
    + assert (0 < / (1 - beta1)) by (apply Rinv_0_lt_compat; lra).
      pose proof (Rabs_pos ((beta1 * momentum (step + 1)%nat k + after) * preconditioner k)).
      match goal with |- ?a * ?b * ?c <= ?e * ?f * ?r * ?h =>
        replace (e * f * r * h) with (e * r * (h * f)) by ring; rewrite Rmult_assoc
      end.
      apply Rmult_le_compat_r; [nra | exact trust_clip].
    + left. apply Rinv_0_lt_compat. lra.
  - replace (momentum (step + 1)%nat k) with (beta1 * momentum step k + before + (1 - beta1) * G / INR n_workers - after)
      by lra.
    field. lra.
Qed.
