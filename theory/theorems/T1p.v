(* Cauchy and Schwarz with the constant 1. *)
From Onebit Require Import Moments.

Theorem T1p :
  forall (live : nat) (outcomes : nat) (probability : nat -> R) (sample : nat -> nat -> R) (first_moment : R) (second_moment : R),
  forall (live_domain : (1 <= live)%nat),
  forall (outcomes_domain : (1 <= outcomes)%nat),
  forall (first_moment_domain : 0 < first_moment),
  forall (second_moment_domain : 0 < second_moment),
  forall (probabilities : forall w : nat, (w < outcomes)%nat -> 0 <= (probability w)),
  forall (all_outcomes : (bigsum outcomes (fun w => (probability w))) = 1),
  forall (first : forall k : nat, (k < live)%nat -> (bigsum outcomes (fun w => ((Rabs (sample w k)) * (probability w)))) = first_moment),
  forall (second : forall k : nat, (k < live)%nat -> (bigsum outcomes (fun w => ((probability w) * ((sample w k) ^ 2)))) = second_moment),
  (first_moment ^ 2) <= second_moment.
Proof.
  intros live outcomes probability sample first_moment second_moment live_domain outcomes_domain first_moment_domain
    second_moment_domain probabilities all_outcomes first second.
  pose proof (weighted_cauchy_schwarz outcomes probability (fun w => Rabs (sample w 0%nat)) (fun _ => 1) probabilities)
    as bound. cbv beta in bound.
  rewrite (bigsum_ext outcomes (fun w => probability w * (Rabs (sample w 0%nat) * 1))
    (fun w => Rabs (sample w 0%nat) * probability w)) in bound by (intros; ring).
  rewrite (bigsum_ext outcomes (fun w => probability w * Rabs (sample w 0%nat) ^ 2)
    (fun w => probability w * sample w 0%nat ^ 2)) in bound by (intros; rewrite pow2_abs; reflexivity).
  rewrite (bigsum_ext outcomes (fun w => probability w * 1 ^ 2) (fun w => probability w)) in bound by (intros; ring).
  rewrite (first 0%nat), (second 0%nat), all_outcomes in bound by lia. lra.
Qed.
