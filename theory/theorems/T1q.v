(* Cauchy and Schwarz twice, by way of the mean of |x|^3. *)
From Onebit Require Import Moments.

Theorem T1q :
  forall (live : nat) (outcomes : nat) (probability : nat -> R) (sample : nat -> nat -> R) (first_moment : R) (second_moment : R) (fourth_moment : R),
  forall (live_domain : (1 <= live)%nat),
  forall (outcomes_domain : (1 <= outcomes)%nat),
  forall (first_moment_domain : 0 < first_moment),
  forall (second_moment_domain : 0 < second_moment),
  forall (fourth_moment_domain : 0 < fourth_moment),
  forall (probabilities : forall w : nat, (w < outcomes)%nat -> 0 <= (probability w)),
  forall (first : forall k : nat, (k < live)%nat -> (bigsum outcomes (fun w => ((Rabs (sample w k)) * (probability w)))) = first_moment),
  forall (second : forall k : nat, (k < live)%nat -> (bigsum outcomes (fun w => ((probability w) * ((sample w k) ^ 2)))) = second_moment),
  forall (fourth : forall k : nat, (k < live)%nat -> (bigsum outcomes (fun w => ((probability w) * ((sample w k) ^ 4)))) <= fourth_moment),
  (second_moment ^ 3) <= ((first_moment ^ 2) * fourth_moment).
Proof.
  intros live outcomes probability sample first_moment second_moment fourth_moment live_domain outcomes_domain
    first_moment_domain second_moment_domain fourth_moment_domain probabilities first second fourth.
  specialize (first 0%nat ltac:(lia)). specialize (second 0%nat ltac:(lia)). specialize (fourth 0%nat ltac:(lia)).
  set (x := fun w => Rabs (sample w 0%nat)).
  set (third := bigsum outcomes (fun w => probability w * x w ^ 3)).
  assert (size : forall w, 0 <= x w) by (intros; apply Rabs_pos).
  assert (square : forall w, sample w 0%nat ^ 2 = x w ^ 2) by (intros; symmetry; apply pow2_abs).
  assert (E1 : bigsum outcomes (fun w => probability w * x w) = first_moment)
    by (rewrite <- first; apply bigsum_ext; intros; unfold x; ring).
  assert (E2 : bigsum outcomes (fun w => probability w * x w ^ 2) = second_moment)
    by (rewrite <- second; apply bigsum_ext; intros; rewrite square; reflexivity).
  assert (E4 : bigsum outcomes (fun w => probability w * x w ^ 4) <= fourth_moment).
  { eapply Rle_trans; [|exact fourth]. apply Req_le, bigsum_ext. intros w _.
    replace (sample w 0%nat ^ 4) with ((sample w 0%nat ^ 2) ^ 2) by ring. rewrite square. ring. }
  assert (lower : second_moment ^ 2 <= first_moment * third).
  { pose proof (weighted_cauchy_schwarz outcomes probability (fun w => sqrt (x w)) (fun w => sqrt (x w) * x w)
      probabilities) as bound. cbv beta in bound.
    assert (root : forall w, sqrt (x w) * sqrt (x w) = x w) by (intros; apply sqrt_sqrt, size).
    rewrite (bigsum_ext outcomes (fun w => probability w * (sqrt (x w) * (sqrt (x w) * x w)))
      (fun w => probability w * x w ^ 2)) in bound
      by (intros w _; rewrite <- (Rmult_assoc (sqrt (x w))), root; ring).
    rewrite (bigsum_ext outcomes (fun w => probability w * sqrt (x w) ^ 2) (fun w => probability w * x w)) in bound
      by (intros w _; rewrite <- (root w) at 2; ring).
    rewrite (bigsum_ext outcomes (fun w => probability w * (sqrt (x w) * x w) ^ 2) (fun w => probability w * x w ^ 3))
      in bound by (intros w _; replace ((sqrt (x w) * x w) ^ 2) with (sqrt (x w) * sqrt (x w) * x w ^ 2) by ring;
        rewrite root; ring).
    rewrite E1, E2 in bound. exact bound. }
  assert (upper : third ^ 2 <= second_moment * fourth_moment).
  { pose proof (weighted_cauchy_schwarz outcomes probability x (fun w => x w ^ 2) probabilities) as bound.
    cbv beta in bound.
    rewrite (bigsum_ext outcomes (fun w => probability w * (x w * x w ^ 2)) (fun w => probability w * x w ^ 3)) in bound
      by (intros; ring).
    rewrite (bigsum_ext outcomes (fun w => probability w * (x w ^ 2) ^ 2) (fun w => probability w * x w ^ 4)) in bound
      by (intros; ring).
    rewrite E2 in bound. fold third in bound. eapply Rle_trans; [exact bound|]. apply Rmult_le_compat_l; lra. }
  apply Rmult_le_reg_l with second_moment; [exact second_moment_domain|].
  replace (second_moment * second_moment ^ 3) with ((second_moment ^ 2) ^ 2) by ring.
  apply Rle_trans with ((first_moment * third) ^ 2); [apply pow_incr; split; [apply pow2_ge_0 | exact lower]|].
  replace ((first_moment * third) ^ 2) with (first_moment ^ 2 * third ^ 2) by ring.
  replace (second_moment * (first_moment ^ 2 * fourth_moment)) with (first_moment ^ 2 * (second_moment * fourth_moment))
    by ring.
  apply Rmult_le_compat_l; [apply pow2_ge_0 | exact upper].
Qed.
