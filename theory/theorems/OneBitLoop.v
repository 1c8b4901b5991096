(* One curved coordinate under one-bit feedback with a constant scale: R = beta m + delta stays within n S, n = 1 - beta,
   and the virtual iterate Y = x - gamma P R/n within (1 + xi/a) gamma P S, when a + xi <= 1/2, a = gamma h P. *)
From Onebit Require Export MaxNorm.

Section Loop.
Variables (beta lr h S P xi : R).
Variables (x b m delta u : nat -> R).
Hypothesis beta_domain : 0 < beta < 1.
Hypothesis lr_pos : 0 < lr.
Hypothesis h_pos : 0 < h.
Hypothesis S_pos : 0 < S.
Hypothesis P_pos : 0 < P.
Hypothesis xi_nonneg : 0 <= xi.
Let a := h * P * lr.
Hypothesis input : forall t, u (t + 1)%nat = beta * m t + (1 - beta) * (h * x t + b t) + delta t.
Hypothesis message : forall t, m (t + 1)%nat = S * sgn (u (t + 1)%nat).
Hypothesis feedback : forall t, delta (t + 1)%nat = u (t + 1)%nat - m (t + 1)%nat.
Hypothesis applied : forall t, x (t + 1)%nat = x t - P * lr * m (t + 1)%nat.
Hypothesis pushed : forall t, Rabs (b t) <= xi * S.
Hypothesis start_loaded : Rabs (beta * m O + delta O) <= S * (1 - beta).
Hypothesis start_virtual : Rabs (x O - P * lr * (beta * m O + delta O) / (1 - beta)) <= P * lr * S * (1 + xi / a).
Hypothesis small : xi + a <= 1 / 2.

Let R_ t := beta * m t + delta t.
Let Y t := x t - P * lr * R_ t / (1 - beta).

Lemma a_pos : 0 < a.
Proof. unfold a. repeat apply Rmult_lt_0_compat; assumption. Qed.

Lemma step_size : 0 < P * lr.
Proof. apply Rmult_lt_0_compat; assumption. Qed.

(* |x| from the invariants, and with it the load on the loop. *)
Lemma position_bound : forall t, Rabs (R_ t) <= S * (1 - beta) -> Rabs (Y t) <= P * lr * S * (1 + xi / a) ->
  Rabs (x t) <= P * lr * S * (2 + xi / a).
Proof.
  intros t loaded virtual. pose proof step_size as step.
  replace (x t) with (Y t + P * lr * / (1 - beta) * R_ t) by (unfold Y; field; lra).
  eapply Rle_trans; [apply Rabs_triang|].
  assert (scaled : 0 <= P * lr * / (1 - beta)) by (apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; lra]).
  rewrite Rabs_mult, (Rabs_right (P * lr * / (1 - beta))) by lra.
  assert (P * lr * / (1 - beta) * Rabs (R_ t) <= P * lr * / (1 - beta) * (S * (1 - beta)))
    by (apply Rmult_le_compat_l; assumption).
  replace (P * lr * / (1 - beta) * (S * (1 - beta))) with (P * lr * S) in H by (field; lra).
  replace (P * lr * S * (2 + xi / a)) with (P * lr * S * (1 + xi / a) + P * lr * S) by ring. lra.
Qed.

Lemma load_bound : forall t, Rabs (x t) <= P * lr * S * (2 + xi / a) -> Rabs (h * x t + b t) <= S.
Proof.
  intros t near. pose proof a_pos. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult, (Rabs_right h) by lra.
  assert (h * Rabs (x t) <= h * (P * lr * S * (2 + xi / a))) by (apply Rmult_le_compat_l; lra).
  replace (h * (P * lr * S * (2 + xi / a))) with (S * (2 * a + xi)) in H0 by (unfold a; field; repeat split; lra).
  specialize (pushed t). nra.
Qed.

Lemma invariant : forall t, Rabs (R_ t) <= S * (1 - beta) /\ Rabs (Y t) <= P * lr * S * (1 + xi / a).
Proof.
  pose proof a_pos as positive. pose proof step_size as step.
  induction t as [|t [loaded virtual]]; [split; [exact start_loaded | exact start_virtual]|].
  replace (Datatypes.S t) with (t + 1)%nat by lia.
  pose proof (position_bound t loaded virtual) as near. pose proof (load_bound t near) as load.
  assert (is_u : u (t + 1)%nat = R_ t + (1 - beta) * (h * x t + b t)) by (rewrite input; unfold R_; ring).
  split.
  - unfold R_. rewrite feedback, message.
    replace (beta * (S * sgn (u (t + 1)%nat)) + (u (t + 1)%nat - S * sgn (u (t + 1)%nat)))
      with (u (t + 1)%nat - (S * (1 - beta)) * sgn (u (t + 1)%nat)) by ring.
    rewrite off_by.
    assert (Rabs (u (t + 1)%nat) <= S * (1 - beta) + (1 - beta) * S).
    { rewrite is_u. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult, (Rabs_right (1 - beta)) by lra.
      apply Rplus_le_compat; [exact loaded | apply Rmult_le_compat_l; lra]. }
    pose proof (Rabs_pos (u (t + 1)%nat)). apply Rabs_le. lra.
  - assert (next : Y (t + 1) = (1 - a) * Y t + (- (a * (P * lr / (1 - beta) * R_ t)) - P * lr * b t)).
    { unfold Y at 1. unfold R_ at 1. rewrite applied, feedback, is_u. unfold Y, a. field. lra. }
    rewrite next. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult, (Rabs_right (1 - a)) by lra.
    assert (first : (1 - a) * Rabs (Y t) <= (1 - a) * (P * lr * S * (1 + xi / a))) by (apply Rmult_le_compat_l; lra).
    assert (residual_part : Rabs (P * lr / (1 - beta) * R_ t) <= P * lr * S).
    { assert (scaled : 0 <= P * lr / (1 - beta)) by (apply Rle_mult_inv_pos; lra).
      rewrite Rabs_mult, (Rabs_right (P * lr / (1 - beta))) by lra.
      apply Rle_trans with (P * lr / (1 - beta) * (S * (1 - beta))); [apply Rmult_le_compat_l; assumption|].
      apply Req_le. field. lra. }
    assert (pushed_part : Rabs (P * lr * b t) <= P * lr * (xi * S)).
    { rewrite Rabs_mult, (Rabs_right (P * lr)) by lra. apply Rmult_le_compat_l; [lra | apply pushed]. }
    assert (second : Rabs (- (a * (P * lr / (1 - beta) * R_ t)) - P * lr * b t) <= a * (P * lr * S) + P * lr * (xi * S)).
    { revert residual_part pushed_part. generalize (P * lr / (1 - beta) * R_ t), (P * lr * b t). intros y z y_small z_small.
      unfold Rminus. eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_Ropp. apply Rplus_le_compat; [|exact z_small].
      rewrite Rabs_mult, (Rabs_right a) by lra. apply Rmult_le_compat_l; lra. }
    apply Rle_trans with ((1 - a) * (P * lr * S * (1 + xi / a)) + (a * (P * lr * S) + P * lr * (xi * S))); [lra|].
    apply Req_le. field. lra.
Qed.

Theorem amplitude : forall t, Rabs (x t) <= P * lr * S * (2 + xi / a).
Proof. intros t. destruct (invariant t). apply position_bound; assumption. Qed.

Theorem residual : forall t, Rabs (delta (t + 1)%nat) <= S.
Proof.
  intros t. destruct (invariant t) as [loaded virtual]. pose proof (load_bound t (amplitude t)) as load.
  rewrite feedback, message, off_by.
  assert (Rabs (u (t + 1)%nat) <= S * (1 - beta) + (1 - beta) * S).
  { rewrite input. replace (beta * m t + (1 - beta) * (h * x t + b t) + delta t)
      with (R_ t + (1 - beta) * (h * x t + b t)) by (unfold R_; ring).
    eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult, (Rabs_right (1 - beta)) by lra.
    apply Rplus_le_compat; [exact loaded | apply Rmult_le_compat_l; lra]. }
  pose proof (Rabs_pos (u (t + 1)%nat)). apply Rabs_le. nra.
Qed.
End Loop.
