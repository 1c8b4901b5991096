(* The denominator by monotone rounding and by its error, then the quotient. *)
From Onebit Require Import Prelude Rounding.
From Flocq Require Import Core.

Theorem T11l :
  forall (precision : nat) (least : nat) (learning_rate : R) (stored_step : R) (step_error : R) (root_exact : R) (root_used : R) (root_tolerance : R) (offset : R) (stored_offset : R) (offset_error : R) (stored_quotient : R) (quotient_error : R) (quotient_slip : R),
  forall (precision_domain : (1 <= precision)%nat),
  forall (learning_rate_domain : 0 <= learning_rate),
  forall (step_error_domain : 0 <= step_error),
  forall (root_exact_domain : 0 <= root_exact),
  forall (root_tolerance_domain : 0 <= root_tolerance),
  forall (offset_domain : 0 <= offset),
  forall (offset_error_domain : 0 <= offset_error),
  forall (quotient_error_domain : 0 <= quotient_error),
  forall (quotient_slip_domain : 0 <= quotient_slip),
  forall (root_in_format : (fl precision least root_used) = root_used),
  forall (offset_in_format : (fl precision least stored_offset) = stored_offset),
  forall (root_not_negative : 0 <= root_used),
  forall (root_near : (Rabs (root_exact - root_used)) <= root_tolerance),
  forall (offset_stored : (Rabs (offset - stored_offset)) <= (offset * offset_error)),
  forall (step_stored : (Rabs (learning_rate - stored_step)) <= (learning_rate * step_error)),
  forall (quotient_stored : (Rabs (stored_quotient - (stored_step / (fl precision least (root_used + stored_offset))))) <= (quotient_slip + ((quotient_error * (Rabs stored_step)) / (fl precision least (root_used + stored_offset))))),
  forall (not_zero : 0 < (Rmax (offset * (1 - offset_error)) (offset + root_exact - root_tolerance - (offset * offset_error) - ((root_exact + root_tolerance + (offset * (1 + offset_error))) * (unit_roundoff precision))))),
  (Rabs ((learning_rate / (offset + root_exact)) - stored_quotient)) <= (quotient_slip + ((learning_rate * (quotient_error + step_error + (quotient_error * step_error) + ((root_tolerance + (offset * offset_error) + ((root_exact + root_tolerance + (offset * (1 + offset_error))) * (unit_roundoff precision))) / (Rmax (offset * (1 - offset_error)) (offset + root_exact - root_tolerance - (offset * offset_error) - ((root_exact + root_tolerance + (offset * (1 + offset_error))) * (unit_roundoff precision))))) + (((root_tolerance + (offset * offset_error) + ((root_exact + root_tolerance + (offset * (1 + offset_error))) * (unit_roundoff precision))) * (quotient_error + step_error + (quotient_error * step_error))) / (Rmax (offset * (1 - offset_error)) (offset + root_exact - root_tolerance - (offset * offset_error) - ((root_exact + root_tolerance + (offset * (1 + offset_error))) * (unit_roundoff precision))))))) / (offset + root_exact))).
Proof.
  intros.
  assert (U := u_positive precision).
  set (u := unit_roundoff precision) in *. set (sum := fl precision least (root_used + stored_offset)) in *.
  set (missing := root_tolerance + offset * offset_error + (root_exact + root_tolerance + offset * (1 + offset_error)) * u) in *.
  assert (same : offset + root_exact - root_tolerance - offset * offset_error - (root_exact + root_tolerance + offset * (1 + offset_error)) * u
    = offset + root_exact - missing) by (unfold missing; ring).
  rewrite same in *. clear same.
  set (bottom := Rmax (offset * (1 - offset_error)) (offset + root_exact - missing)) in *.
  assert (oe : 0 <= offset * offset_error) by (apply Rmult_le_pos; lra).
  assert (miss : 0 <= missing).
  { unfold missing. assert (0 <= (root_exact + root_tolerance + offset * (1 + offset_error)) * u) by (apply Rmult_le_pos; lra). lra. }
  apply within in offset_stored as O. apply within in root_near as W. apply within in step_stored as S.
  (* the sum *)
  assert (near : Rabs (sum - (offset + root_exact)) <= missing).
  { assert (E := fl_sum_error precision least precision_domain root_used stored_offset root_in_format offset_in_format).
    fold sum u in E.
    assert (apart : Rabs (root_used + stored_offset - (offset + root_exact)) <= root_tolerance + offset * offset_error)
      by (apply Rabs_le; lra).
    assert (size : Rabs (root_used + stored_offset) <= root_exact + root_tolerance + offset * (1 + offset_error))
      by (apply Rabs_le; lra).
    apply (Rmult_le_compat_l u) in size; [|lra].
    replace (sum - (offset + root_exact)) with ((sum - (root_used + stored_offset)) + (root_used + stored_offset - (offset + root_exact))) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. unfold missing. lra. }
  apply within in near as N.
  assert (above : offset * (1 - offset_error) <= sum).
  { apply Rle_trans with stored_offset; [lra|]. unfold sum. rewrite <- offset_in_format at 1.
    assert (V := prec_positive precision precision_domain). unfold fl.
    apply round_le; [apply FLT_exp_valid; exact V | apply valid_rnd_N | lra]. }
  assert (low : bottom <= sum) by (apply Rmax_lub; lra).
  assert (R : 0 < offset + root_exact).
  { destruct (Rlt_le_dec 0 (offset + root_exact)) as [|none]; [assumption|]. exfalso.
    assert (z : offset = 0) by lra. assert (bottom <= 0); [|lra]. apply Rmax_lub; [rewrite z; lra | lra]. }
  (* one over it *)
  assert (ib : 0 < / bottom) by (apply Rinv_0_lt_compat; lra).
  assert (ir : 0 < / (offset + root_exact)) by (apply Rinv_0_lt_compat; lra).
  assert (is : 0 < / sum) by (apply Rinv_0_lt_compat; lra).
  assert (le : / sum <= / bottom) by (apply Rinv_le_contravar; lra).
  assert (over : Rabs (/ sum - / (offset + root_exact)) <= missing * / bottom * / (offset + root_exact)).
  { replace (/ sum - / (offset + root_exact)) with (- (sum - (offset + root_exact)) * (/ sum * / (offset + root_exact))) by (field; lra).
    rewrite Rabs_mult, Rabs_Ropp, (Rabs_right (/ sum * / (offset + root_exact))) by (apply Rle_ge, Rmult_le_pos; lra).
    rewrite Rmult_assoc. apply Rmult_le_compat; [apply Rabs_pos | apply Rmult_le_pos; lra | exact near|].
    apply Rmult_le_compat_r; lra. }
  unfold Rdiv in *. set (d := missing * / bottom) in *. set (r := / (offset + root_exact)) in *. set (s := / sum) in *.
  assert (dpos : 0 <= d) by (apply Rmult_le_pos; lra).
  apply within in over as V.
  assert (top : Rabs stored_step <= learning_rate * (1 + step_error)).
  { replace stored_step with (learning_rate - (learning_rate - stored_step)) by ring. eapply Rle_trans; [apply Rabs_triang|].
    rewrite Rabs_Ropp, (Rabs_right learning_rate) by lra. lra. }
  assert (T := Rabs_pos stored_step). assert (se : 0 <= learning_rate * step_error) by (apply Rmult_le_pos; lra).
  assert (high : s <= (1 + d) * r) by lra.
  assert (dr : 0 <= d * r) by (apply Rmult_le_pos; lra).
  (* the quotient *)
  replace (learning_rate * r - stored_quotient)
    with ((stored_step * s - stored_quotient) + (learning_rate - stored_step) * s + learning_rate * (r - s)) by ring.
  assert (T3 : forall a b c, Rabs (a + b + c) <= Rabs a + Rabs b + Rabs c)
    by (intros; unfold Rabs; repeat destruct Rcase_abs; lra).
  eapply Rle_trans; [apply T3|]. clear T3.
  rewrite (Rabs_minus_sym (stored_step * s)), (Rabs_mult (learning_rate - stored_step)), (Rabs_mult learning_rate), (Rabs_right s), (Rabs_right learning_rate) by lra.
  assert (p1 : quotient_error * Rabs stored_step * s <= quotient_error * (learning_rate * (1 + step_error)) * ((1 + d) * r)).
  { apply Rmult_le_compat; [apply Rmult_le_pos; lra | lra | apply Rmult_le_compat_l; lra | exact high]. }
  assert (p2 : Rabs (learning_rate - stored_step) * s <= learning_rate * step_error * ((1 + d) * r))
    by (apply Rmult_le_compat; [apply Rabs_pos | lra | exact step_stored | exact high]).
  assert (p3 : learning_rate * Rabs (r - s) <= learning_rate * (d * r))
    by (apply Rmult_le_compat_l; [lra | rewrite Rabs_minus_sym; exact over]).
  replace (missing * (quotient_error + step_error + quotient_error * step_error) * / bottom)
    with (d * (quotient_error + step_error + quotient_error * step_error)) by (unfold d; ring).
  lra.
Qed.
