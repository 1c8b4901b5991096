(* Induction over the steps. *)
From Onebit Require Import Prelude.

Theorem T2d :
  forall (step : nat) (exact_state : nat -> R) (state : nat -> R) (inputs : nat -> R) (decoded : nat -> R) (residual : nat -> R) (input_weight : R),
  forall (no_residual : (residual 0%nat) = 0),
  forall (same_start : (exact_state 0%nat) = (state 0%nat)),
  forall (feedback : forall s : nat, (residual (s + 1)%nat) = ((inputs (s + 1)%nat) + (residual s) - (decoded (s + 1)%nat))),
  forall (exact_step : forall s : nat, (exact_state (s + 1)%nat) = ((input_weight * (inputs (s + 1)%nat)) + (exact_state s))),
  forall (compressed_step : forall s : nat, (state (s + 1)%nat) = ((input_weight * (decoded (s + 1)%nat)) + (state s))),
  ((exact_state step) - (state step)) = (input_weight * (residual step)).
Proof.
  intros step exact_state state inputs decoded residual input_weight no_residual same_start feedback exact_step
    compressed_step.
  induction step.
  - rewrite same_start, no_residual. ring.
  - replace (S step) with (step + 1)%nat by lia. rewrite exact_step, compressed_step, feedback. lra.
Qed.
