(* z* - z = b e + R, and R keeps below (1 - a^t) b E of the errors before. *)
From Onebit Require Import Prelude.

Theorem T2c :
  forall (step : nat) (error_bound : R) (exact_state : nat -> R) (state : nat -> R) (inputs : nat -> R) (decoded : nat -> R) (residual : nat -> R) (decay : R) (input_weight : R),
  forall (error_bound_domain : 0 <= error_bound),
  forall (decay_domain : 0 < decay /\ decay < 1),
  forall (no_residual : (residual 0%nat) = 0),
  forall (same_start : (exact_state 0%nat) = (state 0%nat)),
  forall (feedback : forall s : nat, (residual (s + 1)%nat) = ((inputs (s + 1)%nat) + (residual s) - (decoded (s + 1)%nat))),
  forall (exact_step : forall s : nat, (exact_state (s + 1)%nat) = ((decay * (exact_state s)) + (input_weight * (inputs (s + 1)%nat)))),
  forall (compressed_step : forall s : nat, (state (s + 1)%nat) = ((decay * (state s)) + (input_weight * (decoded (s + 1)%nat)))),
  forall (bounded : forall s : nat, (Rabs (residual s)) <= error_bound),
  (Rabs ((exact_state (step + 1)%nat) - (state (step + 1)%nat))) <= (error_bound * (2 - (decay ^ step)) * (Rabs input_weight)).
Proof.
  intros step error_bound exact_state state inputs decoded residual decay input_weight error_bound_domain decay_domain
    no_residual same_start feedback exact_step compressed_step bounded.
  set (R := fun s => exact_state s - state s - input_weight * residual s).
  assert (next : forall s, R (s + 1)%nat = decay * R s - (1 - decay) * (input_weight * residual s)).
  { intros s. unfold R. rewrite exact_step, compressed_step, feedback. ring. }
  assert (start : R 0%nat = 0) by (unfold R; rewrite same_start, no_residual; ring).
  assert (weighted : forall s, Rabs (input_weight * residual s) <= error_bound * Rabs input_weight).
  { intros s. rewrite Rabs_mult. specialize (bounded s). pose proof (Rabs_pos input_weight). nra. }
  assert (size : 0 <= error_bound * Rabs input_weight) by (pose proof (Rabs_pos input_weight); nra).
  assert (below : forall s, Rabs (R (s + 1)%nat) <= (1 - decay ^ s) * (error_bound * Rabs input_weight)).
  { induction s.
    - rewrite next, start, no_residual. cbn [pow]. rewrite !Rmult_0_r, Rminus_0_r, Rabs_R0. lra.
    - rewrite next. replace (S s) with (s + 1)%nat by lia. unfold Rminus at 1.
      eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp, !(Rabs_mult decay), (Rabs_mult (1 - decay)).
      rewrite (Rabs_right decay), (Rabs_right (1 - decay)) by lra. rewrite pow_add, pow_1.
      specialize (weighted (s + 1)%nat). nra. }
  replace (exact_state (step + 1)%nat - state (step + 1)%nat)
    with (R (step + 1)%nat + input_weight * residual (step + 1)%nat) by (unfold R; ring).
  eapply Rle_trans; [apply Rabs_triang|]. specialize (below step). specialize (weighted (step + 1)%nat). lra.
Qed.
