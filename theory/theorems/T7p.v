(* The invariant of OneBitLoop.v bounds u by 2 (1 - beta1) S. *)
From Onebit Require Import Prelude OneBitLoop.

Theorem T7p :
  forall (step : nat) (beta1 : R) (lr : R) (position : nat -> R) (other_gradient : nat -> R) (sent : nat -> R) (error : nat -> R) (inputs : nat -> R) (curvature : R) (scale_size : R) (entry : R) (push : R),
  forall (beta1_domain : 0 < beta1 /\ beta1 < 1),
  forall (lr_domain : 0 < lr),
  forall (curvature_domain : 0 < curvature),
  forall (scale_size_domain : 0 < scale_size),
  forall (entry_domain : 0 < entry),
  forall (push_domain : 0 <= push),
  forall (compressed : forall step : nat, (inputs (step + 1)%nat) = ((beta1 * (sent step)) + ((1 - beta1) * ((curvature * (position step)) + (other_gradient step))) + (error step))),
  forall (one_bit : forall step : nat, (sent (step + 1)%nat) = (scale_size * (sgn (inputs (step + 1)%nat)))),
  forall (feedback : forall step : nat, (error (step + 1)%nat) = ((inputs (step + 1)%nat) - (sent (step + 1)%nat))),
  forall (applied : forall step : nat, (position (step + 1)%nat) = ((position step) - (entry * lr * (sent (step + 1)%nat)))),
  forall (pushed : forall step : nat, (Rabs (other_gradient step)) <= (push * scale_size)),
  forall (start_loaded : (Rabs ((beta1 * (sent 0%nat)) + (error 0%nat))) <= (scale_size * (1 - beta1))),
  forall (start_virtual : (Rabs ((position 0%nat) - ((entry * lr * ((beta1 * (sent 0%nat)) + (error 0%nat))) / (1 - beta1)))) <= (entry * lr * scale_size * (1 + (push / (curvature * entry * lr))))),
  forall (not_too_curved : (push + (curvature * entry * lr)) <= (1 / 2)),
  (Rabs (error (step + 1)%nat)) <= scale_size.
Proof.
  intros step beta1 lr position other_gradient sent error inputs curvature scale_size entry push beta1_domain
    lr_domain curvature_domain scale_size_domain entry_domain push_domain compressed one_bit feedback applied
    pushed start_loaded start_virtual not_too_curved.
  pose proof (residual beta1 lr curvature scale_size entry push position other_gradient sent error inputs beta1_domain lr_domain
    curvature_domain scale_size_domain entry_domain push_domain compressed one_bit feedback applied pushed start_loaded) as bound.
  apply bound; assumption.
Qed.
