(* T2c with 2 (1 - beta2) g for the weight: X is fed the change of the total error. *)
From Onebit Require Import Prelude. From Onebit Require T2c.

Theorem T4c :
  forall (step : nat) (total_error : nat -> R) (beta2 : R) (error_bound : R) (cross : nat -> R) (gradient : R),
  forall (beta2_domain : 0 < beta2 /\ beta2 < 1),
  forall (error_bound_domain : 0 <= error_bound),
  forall (no_residual : (total_error 0%nat) = 0),
  forall (bounded : forall s : nat, (Rabs (total_error s)) <= error_bound),
  forall (cross_start : (cross 0%nat) = 0),
  forall (cross_step : forall s : nat, (cross (s + 1)%nat) = ((beta2 * (cross s)) + (2 * gradient * (1 - beta2) * ((total_error s) - (total_error (s + 1)%nat))))),
  (Rabs (cross (step + 1)%nat)) <= (error_bound * (2 - (2 * beta2)) * (2 - (beta2 ^ step)) * (Rabs gradient)).
Proof.
  intros step total_error beta2 error_bound cross gradient beta2_domain error_bound_domain no_residual bounded
    cross_start cross_step.
  replace (cross (step + 1)%nat) with (- (0 - cross (step + 1)%nat)) by ring. rewrite Rabs_Ropp.
  eapply Rle_trans.
  - apply (T2c.T2c step error_bound (fun _ => 0) cross (fun _ => 0) (fun s => total_error (s - 1)%nat - total_error s)
      total_error beta2 (2 * (1 - beta2) * gradient) error_bound_domain beta2_domain no_residual).
    + rewrite cross_start. reflexivity.
    + intros s. replace (s + 1 - 1)%nat with s by lia. ring.
    + intros s. ring.
    + intros s. replace (s + 1 - 1)%nat with s by lia. rewrite cross_step. ring.
    + exact bounded.
  - rewrite !Rabs_mult, (Rabs_right 2), (Rabs_right (1 - beta2)) by lra. lra.
Qed.
