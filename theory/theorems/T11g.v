(* s q is a number of the format, so u - s q is rounded once and does not underflow. *)
From Onebit Require Import Prelude Rounding.

Theorem T11g :
  forall (precision : nat) (least : nat) (value : R) (size : R) (sent_sign : R) (value_used : R) (size_used : R) (value_tolerance : R) (size_tolerance : R),
  forall (precision_domain : (1 <= precision)%nat),
  forall (value_tolerance_domain : 0 <= value_tolerance),
  forall (size_tolerance_domain : 0 <= size_tolerance),
  forall (value_in_format : (fl precision least value_used) = value_used),
  forall (size_in_format : (fl precision least size_used) = size_used),
  forall (value_near : (Rabs (value - value_used)) <= value_tolerance),
  forall (size_near : (Rabs (size - size_used)) <= size_tolerance),
  forall (one_bit : (sent_sign ^ 2) = 1),
  (Rabs ((sent_sign * size) + (fl precision least (value_used - (sent_sign * size_used))) - value)) <= (size_tolerance + value_tolerance + ((size_tolerance + value_tolerance + (Rabs ((sent_sign * size) - value))) * (unit_roundoff precision))).
Proof.
  intros.
  assert (opposite : fl precision least (- (size_used * sent_sign)) = - (size_used * sent_sign)).
  { rewrite fl_opposite. f_equal. assert (two : (sent_sign - 1) * (sent_sign + 1) = 0) by nra.
    apply Rmult_integral in two. destruct two as [plus|minus].
    - replace sent_sign with 1 by lra. rewrite Rmult_1_r. exact size_in_format.
    - replace sent_sign with (-1) by lra. replace (size_used * -1) with (- size_used) by ring.
      rewrite fl_opposite, size_in_format. reflexivity. }
  assert (one : Rabs sent_sign = 1).
  { assert (two : (sent_sign - 1) * (sent_sign + 1) = 0) by nra. apply Rmult_integral in two.
    destruct two as [plus|minus]; [replace sent_sign with 1 by lra; apply Rabs_R1|].
    replace sent_sign with (-1) by lra. rewrite Rabs_left; lra. }
  assert (U := u_positive precision).
  assert (once := fl_sum_error precision least precision_domain value_used (- (size_used * sent_sign)) value_in_format
    opposite).
  replace (value_used + - (size_used * sent_sign)) with (value_used - size_used * sent_sign) in once by ring.
  set (used := value_used - size_used * sent_sign) in *. set (true := value - size * sent_sign) in *.
  assert (near : Rabs (used - true) <= value_tolerance + size_tolerance).
  { replace (used - true) with (- (value - value_used) + (size - size_used) * sent_sign) by (unfold used, true; ring).
    eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp, Rabs_mult, one. lra. }
  assert (size_of : Rabs used <= Rabs true + value_tolerance + size_tolerance).
  { replace used with (true + (used - true)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
  replace (sent_sign * size_used) with (size_used * sent_sign) by ring. fold used.
  replace (sent_sign * size - value) with (- true) by (unfold true; ring). rewrite Rabs_Ropp.
  replace (sent_sign * size + fl precision least used - value) with ((fl precision least used - used) + (used - true))
    by (unfold true; ring).
  eapply Rle_trans; [apply Rabs_triang|].
  apply (Rmult_le_compat_l (unit_roundoff precision)) in size_of; lra.
Qed.
