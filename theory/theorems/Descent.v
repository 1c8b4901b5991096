(* Expectation over a finite probability space, and one step of the virtual iterate on a smooth function. Lemmas only:
   no statement speaks of the definitions in this file. *)
From Onebit Require Import Prelude.

Definition expect (W : nat) (p X : nat -> R) : R := bigsum W (fun w => p w * X w).

Section Expectation.
Variables (W : nat) (p : nat -> R).
Hypothesis p_pos : forall w, (w < W)%nat -> 0 <= p w.
Notation E := (expect W p).

Lemma expect_ext : forall X Y, (forall w, (w < W)%nat -> X w = Y w) -> E X = E Y.
Proof. intros X Y same. apply bigsum_ext. intros w below. rewrite same by exact below. reflexivity. Qed.

Lemma expect_plus : forall X Y, E (fun w => X w + Y w) = E X + E Y.
Proof. intros X Y. unfold expect. rewrite <- bigsum_plus. apply bigsum_ext. intros; ring. Qed.

Lemma expect_minus : forall X Y, E (fun w => X w - Y w) = E X - E Y.
Proof. intros X Y. unfold expect. rewrite <- bigsum_minus. apply bigsum_ext. intros; ring. Qed.

Lemma expect_scal : forall c X, E (fun w => c * X w) = c * E X.
Proof. intros c X. unfold expect. rewrite <- bigsum_scal. apply bigsum_ext. intros; ring. Qed.

Lemma expect_le : forall X Y, (forall w, (w < W)%nat -> X w <= Y w) -> E X <= E Y.
Proof. intros X Y below. apply bigsum_le. intros w inside. apply Rmult_le_compat_l; auto. Qed.

Lemma expect_nonneg : forall X, (forall w, (w < W)%nat -> 0 <= X w) -> 0 <= E X.
Proof. intros X pos. apply bigsum_nonneg. intros w inside. apply Rmult_le_pos; auto. Qed.

Lemma expect_const : forall c, bigsum W p = 1 -> E (fun _ => c) = c.
Proof.
  intros c one. unfold expect. rewrite (bigsum_ext W _ (fun w => c * p w)) by (intros; ring).
  rewrite bigsum_scal, one. ring.
Qed.

Lemma expect_sum : forall D (X : nat -> nat -> R), E (fun w => bigsum D (X w)) = bigsum D (fun k => E (fun w => X w k)).
Proof.
  intros D X. unfold expect. rewrite <- bigsum_swap. apply bigsum_ext. intros; rewrite bigsum_scal; reflexivity.
Qed.

(* Noise that no function of the past correlates with: what is linear in it has expectation 0. *)
Lemma expect_linear_zero : forall D (h noise : nat -> nat -> R),
  (forall k, (k < D)%nat -> E (fun w => h w k * noise w k) = 0) -> E (fun w => bigsum D (fun k => h w k * noise w k)) = 0.
Proof.
  intros D h noise zero. rewrite expect_sum, (bigsum_ext D _ (fun _ => 0)); [rewrite bigsum_const; ring|exact zero].
Qed.

(* E ||drift + noise||^2 = E ||drift||^2 + E ||noise||^2. *)
Lemma expect_square_split : forall D (drift noise : nat -> nat -> R),
  (forall k, (k < D)%nat -> E (fun w => drift w k * noise w k) = 0) ->
  E (fun w => bigsum D (fun k => (drift w k + noise w k) ^ 2))
  = E (fun w => bigsum D (fun k => drift w k ^ 2)) + E (fun w => bigsum D (fun k => noise w k ^ 2)).
Proof.
  intros D drift noise zero.
  rewrite (expect_ext _ (fun w => (bigsum D (fun k => drift w k ^ 2) + bigsum D (fun k => noise w k ^ 2))
    + 2 * bigsum D (fun k => drift w k * noise w k))).
  2:{ intros w _. rewrite <- bigsum_scal, <- !bigsum_plus. apply bigsum_ext. intros; ring. }
  rewrite expect_plus, expect_plus, expect_scal, (expect_linear_zero D drift noise zero). ring.
Qed.
End Expectation.

(* f(y') - f(y) for y' = y - g P h: the gradients at x and y, their difference, the size of the step, and the noise. *)
Lemma descent_pointwise : forall D (P gx gy h y y' : nat -> R) fy fy' L g,
  (forall k, (k < D)%nat -> y' k = y k - g * (P k * h k)) ->
  fy' <= fy + bigsum D (fun k => gy k * (y' k - y k)) + L / 2 * bigsum D (fun k => (y' k - y k) ^ 2) ->
  fy' <= fy - g / 2 * bigsum D (fun k => P k * gx k ^ 2) - g / 2 * bigsum D (fun k => P k * gy k ^ 2)
    + g / 2 * bigsum D (fun k => P k * (gy k - gx k) ^ 2)
    + L * g ^ 2 / 2 * (bigsum D (fun k => (P k * gx k) ^ 2) + bigsum D (fun k => (P k * (h k - gx k)) ^ 2))
    + bigsum D (fun k => (L * g ^ 2 * P k ^ 2 * gx k - g * P k * gy k) * (h k - gx k)).
Proof.
  intros D P gx gy h y y' fy fy' L g step below.
  eapply Rle_trans; [exact below|]. apply Req_le.
  rewrite (bigsum_ext D (fun k => gy k * (y' k - y k)) (fun k => gy k * (- g * (P k * h k))))
    by (intros k inside; rewrite step by exact inside; ring).
  rewrite (bigsum_ext D (fun k => (y' k - y k) ^ 2) (fun k => (g * (P k * h k)) ^ 2))
    by (intros k inside; rewrite step by exact inside; ring).
  unfold Rminus. rewrite !Ropp_mult_distr_l. rewrite <- !bigsum_plus, <- !bigsum_scal, !Rplus_assoc, <- !bigsum_plus.
  f_equal. apply bigsum_ext. intros; field.
Qed.

Section OneStep.
Variables (W D : nat) (p : nat -> R).
Hypothesis p_pos : forall w, (w < W)%nat -> 0 <= p w.
Notation E := (expect W p).
Variables (P : nat -> R) (pmax L g M2 S2 : R).
Hypothesis P_range : forall k, (k < D)%nat -> 0 <= P k <= pmax.
Hypothesis g_pos : 0 < g.
Hypothesis L_pos : 0 <= L.
Variables (x y y' gx gy h : nat -> nat -> R) (f f' : nat -> R).
Hypothesis step : forall w k, (w < W)%nat -> (k < D)%nat -> y' w k = y w k - g * (P k * h w k).
Hypothesis descent : forall w, (w < W)%nat ->
  f' w <= f w + bigsum D (fun k => gy w k * (y' w k - y w k)) + L / 2 * bigsum D (fun k => (y' w k - y w k) ^ 2).
Hypothesis lipschitz : forall w, (w < W)%nat ->
  bigsum D (fun k => P k * (gy w k - gx w k) ^ 2) <= M2 * bigsum D (fun k => (x w k - y w k) ^ 2).
Hypothesis unbiased_x : forall k, (k < D)%nat -> E (fun w => gx w k * (h w k - gx w k)) = 0.
Hypothesis unbiased_y : forall k, (k < D)%nat -> E (fun w => gy w k * (h w k - gx w k)) = 0.
Hypothesis noise : E (fun w => bigsum D (fun k => (P k * (h w k - gx w k)) ^ 2)) <= S2.

Notation GX := (E (fun w => bigsum D (fun k => P k * gx w k ^ 2))).
Notation GY := (E (fun w => bigsum D (fun k => P k * gy w k ^ 2))).

Lemma scaled_gradient : E (fun w => bigsum D (fun k => (P k * gx w k) ^ 2)) <= pmax * GX.
Proof.
  rewrite <- expect_scal. apply expect_le; [exact p_pos|]. intros w _. rewrite <- bigsum_scal. apply bigsum_le.
  intros k inside. specialize (P_range k inside). assert (0 <= gx w k ^ 2) by apply pow2_ge_0.
  replace ((P k * gx w k) ^ 2) with (P k * (P k * gx w k ^ 2)) by ring.
  apply Rmult_le_compat_r; [apply Rmult_le_pos; lra | lra].
Qed.

(* E ||P h||^2 <= pmax E ||grad||_P^2 + noise. *)
Lemma second_moment : E (fun w => bigsum D (fun k => (P k * h w k) ^ 2)) <= pmax * GX + S2.
Proof.
  rewrite (expect_ext W p _ (fun w => bigsum D (fun k => (P k * gx w k + P k * (h w k - gx w k)) ^ 2)))
    by (intros w _; apply bigsum_ext; intros; ring).
  rewrite (expect_square_split W p D (fun w k => P k * gx w k) (fun w k => P k * (h w k - gx w k))).
  - pose proof scaled_gradient. lra.
  - intros k inside. rewrite (expect_ext W p _ (fun w => P k ^ 2 * (gx w k * (h w k - gx w k)))) by (intros; ring).
    rewrite expect_scal, unbiased_x by exact inside. ring.
Qed.

Lemma one_step : E f' <= E f - g / 2 * GX - g / 2 * GY
  + g / 2 * M2 * E (fun w => bigsum D (fun k => (x w k - y w k) ^ 2)) + L * g ^ 2 / 2 * (pmax * GX + S2).
Proof.
  eapply Rle_trans.
  { apply (expect_le W p p_pos f'
    (fun w => ((((f w - g / 2 * bigsum D (fun k => P k * gx w k ^ 2)) - g / 2 * bigsum D (fun k => P k * gy w k ^ 2))
      + g / 2 * bigsum D (fun k => P k * (gy w k - gx w k) ^ 2))
      + L * g ^ 2 / 2 * (bigsum D (fun k => (P k * gx w k) ^ 2) + bigsum D (fun k => (P k * (h w k - gx w k)) ^ 2)))
      + bigsum D (fun k => (L * g ^ 2 * P k ^ 2 * gx w k - g * P k * gy w k) * (h w k - gx w k)))).
    intros w inside. apply (descent_pointwise D P (gx w) (gy w) (h w) (y w) (y' w)); auto. }
  rewrite expect_plus, (expect_linear_zero W p D).
  2:{ intros k inside.
      rewrite (expect_ext W p _ (fun w => L * g ^ 2 * P k ^ 2 * (gx w k * (h w k - gx w k))
        - g * P k * (gy w k * (h w k - gx w k)))) by (intros; ring).
      rewrite expect_minus, !expect_scal, unbiased_x, unbiased_y by exact inside. ring. }
  rewrite !expect_plus, !expect_minus, !expect_scal, expect_plus.
  assert (apart : E (fun w => bigsum D (fun k => P k * (gy w k - gx w k) ^ 2))
    <= M2 * E (fun w => bigsum D (fun k => (x w k - y w k) ^ 2)))
    by (rewrite <- expect_scal; apply expect_le; [exact p_pos|exact lipschitz]).
  pose proof scaled_gradient as large.
  assert (0 <= L * g ^ 2 / 2) by (apply Rmult_le_pos; [apply Rmult_le_pos; [lra|apply pow2_ge_0]|lra]).
  apply (Rmult_le_compat_l (g / 2)) in apart; [|lra].
  assert (L * g ^ 2 / 2 * (E (fun w => bigsum D (fun k => (P k * gx w k) ^ 2))
    + E (fun w => bigsum D (fun k => (P k * (h w k - gx w k)) ^ 2))) <= L * g ^ 2 / 2 * (pmax * GX + S2))
    by (apply Rmult_le_compat_l; [assumption|lra]).
  lra.
Qed.
End OneStep.

Lemma square_of_average : forall b u v, 0 <= b <= 1 -> (b * u + (1 - b) * v) ^ 2 <= b * u ^ 2 + (1 - b) * v ^ 2.
Proof.
  intros b u v range.
  replace (b * u ^ 2 + (1 - b) * v ^ 2) with ((b * u + (1 - b) * v) ^ 2 + b * (1 - b) * (u - v) ^ 2) by ring.
  assert (0 <= b * (1 - b) * (u - v) ^ 2) by (apply Rmult_le_pos; [nra|apply pow2_ge_0]). lra.
Qed.

Lemma square_of_sum : forall u v, (u + v) ^ 2 <= 2 * u ^ 2 + 2 * v ^ 2.
Proof. intros u v. assert (0 <= (u - v) ^ 2) by apply pow2_ge_0. nra. Qed.

Lemma expect_squares_average : forall W D p b (u v : nat -> nat -> R),
  (forall w, (w < W)%nat -> 0 <= p w) -> 0 <= b <= 1 ->
  expect W p (fun w => bigsum D (fun k => (b * u w k + (1 - b) * v w k) ^ 2))
  <= b * expect W p (fun w => bigsum D (fun k => u w k ^ 2)) + (1 - b) * expect W p (fun w => bigsum D (fun k => v w k ^ 2)).
Proof.
  intros W D p b u v pos range. rewrite <- !expect_scal, <- expect_plus. apply expect_le; [exact pos|].
  intros w _. rewrite <- !bigsum_scal, <- bigsum_plus. apply bigsum_le. intros; apply square_of_average; exact range.
Qed.

(* Error feedback with momentum in units of the update: s is the shared update, d the residual, h the gradient. *)
Section Averages.
Variables (W D T : nat) (p : nat -> R).
Hypothesis p_pos : forall w, (w < W)%nat -> 0 <= p w.
Notation E := (expect W p).
Variables (P : nat -> R) (beta g : R).
Hypothesis beta_range : 0 < beta < 1.
Variables (x y s d h : nat -> nat -> nat -> R).
Hypothesis virtual : forall t w k, (t <= T)%nat -> (w < W)%nat -> (k < D)%nat ->
  y t w k = x t w k - g / (1 - beta) * (beta * s t w k + d t w k).
Hypothesis conserved : forall t w k, (t < T)%nat -> (w < W)%nat -> (k < D)%nat ->
  s (S t) w k + d (S t) w k = beta * s t w k + (1 - beta) * (P k * h t w k) + d t w k.
Hypothesis moved : forall t w k, (t < T)%nat -> (w < W)%nat -> (k < D)%nat -> x (S t) w k = x t w k - g * s (S t) w k.

(* Law L2. *)
Lemma virtual_step : forall t w k, (t < T)%nat -> (w < W)%nat -> (k < D)%nat ->
  y (S t) w k = y t w k - g * (P k * h t w k).
Proof.
  intros t w k steps inside below. rewrite (virtual (S t)), (virtual t), moved by (assumption || lia).
  assert (share : beta * s (S t) w k + d (S t) w k
    = beta * s t w k + (1 - beta) * (P k * h t w k) + d t w k - (1 - beta) * s (S t) w k)
    by (rewrite <- (conserved t) by assumption; ring).
  rewrite share. field. lra.
Qed.

Fixpoint gradient_average (t w k : nat) : R :=
  match t with
  | O => s 0 w k
  | S before => beta * gradient_average before w k + (1 - beta) * (P k * h before w k)
  end.

Fixpoint error_average (t w k : nat) : R :=
  match t with
  | O => d 0 w k
  | S before => beta * error_average before w k + (1 - beta) * d t w k
  end.

Lemma averages : forall t w k, (t <= T)%nat -> (w < W)%nat -> (k < D)%nat ->
  beta * s t w k + d t w k = beta * gradient_average t w k + error_average t w k.
Proof.
  induction t as [|t before]; intros w k steps inside below; [reflexivity|].
  assert (share : s (S t) w k = beta * s t w k + (1 - beta) * (P k * h t w k) + d t w k - d (S t) w k)
    by (rewrite <- (conserved t) by (assumption || lia); ring).
  specialize (before w k ltac:(lia) inside below). simpl. rewrite share.
  transitivity (beta * (beta * s t w k + d t w k) + (1 - beta) * (beta * (P k * h t w k) + d (S t) w k)); [ring|].
  rewrite before. ring.
Qed.

Notation A t := (E (fun w => bigsum D (fun k => gradient_average t w k ^ 2))).

Lemma gradient_average_step : forall t,
  A (S t) <= beta * A t + (1 - beta) * E (fun w => bigsum D (fun k => (P k * h t w k) ^ 2)).
Proof. intros t. simpl gradient_average. apply expect_squares_average; [exact p_pos|lra]. Qed.

Lemma error_average_bound : forall D2,
  (forall t, (t < T)%nat -> E (fun w => bigsum D (fun k => d t w k ^ 2)) <= D2) ->
  forall t, (t < T)%nat -> E (fun w => bigsum D (fun k => error_average t w k ^ 2)) <= D2.
Proof.
  intros D2 bounded. induction t as [|t before]; intros steps; [apply (bounded 0%nat steps)|].
  simpl error_average. eapply Rle_trans; [apply expect_squares_average; [exact p_pos|lra]|].
  specialize (before ltac:(lia)). specialize (bounded (S t) steps). nra.
Qed.

Lemma distance_bound : forall D2 t, (t < T)%nat ->
  E (fun w => bigsum D (fun k => error_average t w k ^ 2)) <= D2 ->
  E (fun w => bigsum D (fun k => (x t w k - y t w k) ^ 2)) <= (g / (1 - beta)) ^ 2 * (2 * beta ^ 2 * A t + 2 * D2).
Proof.
  intros D2 t steps bounded.
  apply Rle_trans with (E (fun w => (g / (1 - beta)) ^ 2 * (2 * beta ^ 2 * bigsum D (fun k => gradient_average t w k ^ 2)
    + 2 * bigsum D (fun k => error_average t w k ^ 2)))).
  - apply expect_le; [exact p_pos|]. intros w inside. rewrite <- !bigsum_scal, <- bigsum_plus, <- bigsum_scal.
    apply bigsum_le. intros k below.
    replace (x t w k - y t w k) with (g / (1 - beta) * (beta * s t w k + d t w k))
      by (rewrite (virtual t) by (assumption || lia); ring).
    rewrite averages by (assumption || lia). rewrite Rpow_mult_distr.
    apply Rmult_le_compat_l; [apply pow2_ge_0|].
    eapply Rle_trans; [apply square_of_sum|]. apply Req_le. ring.
  - rewrite expect_scal, expect_plus, !expect_scal. apply Rmult_le_compat_l; [apply pow2_ge_0|]. lra.
Qed.
End Averages.

(* The rate: one Lyapunov function, summed over T steps. *)
Section Rate.
Variables (W D T : nat) (p : nat -> R).
Hypothesis p_pos : forall w, (w < W)%nat -> 0 <= p w.
Hypothesis p_sum : bigsum W p = 1.
Notation E := (expect W p).
Variables (P : nat -> R) (beta g L M2 pmax S2 D2 lowest : R).
Hypothesis P_range : forall k, (k < D)%nat -> 0 <= P k <= pmax.
Hypothesis beta_range : 0 < beta < 1.
Hypothesis g_pos : 0 < g.
Hypothesis L_pos : 0 <= L.
Hypothesis M2_pos : 0 <= M2.
Variables (x y s d h : nat -> nat -> nat -> R) (f : (nat -> R) -> R) (grad : (nat -> R) -> nat -> R).
Hypothesis virtual : forall t w k, (t <= T)%nat -> (w < W)%nat -> (k < D)%nat ->
  y t w k = x t w k - g / (1 - beta) * (beta * s t w k + d t w k).
Hypothesis conserved : forall t w k, (t < T)%nat -> (w < W)%nat -> (k < D)%nat ->
  s (S t) w k + d (S t) w k = beta * s t w k + (1 - beta) * (P k * h t w k) + d t w k.
Hypothesis moved : forall t w k, (t < T)%nat -> (w < W)%nat -> (k < D)%nat -> x (S t) w k = x t w k - g * s (S t) w k.
Hypothesis descent : forall a b,
  f b <= f a + bigsum D (fun k => grad a k * (b k - a k)) + L / 2 * bigsum D (fun k => (b k - a k) ^ 2).
Hypothesis lipschitz : forall a b,
  bigsum D (fun k => P k * (grad b k - grad a k) ^ 2) <= M2 * bigsum D (fun k => (a k - b k) ^ 2).
Hypothesis below : forall a, lowest <= f a.
Hypothesis unbiased_x : forall t k, (t < T)%nat -> (k < D)%nat ->
  E (fun w => grad (x t w) k * (h t w k - grad (x t w) k)) = 0.
Hypothesis unbiased_y : forall t k, (t < T)%nat -> (k < D)%nat ->
  E (fun w => grad (y t w) k * (h t w k - grad (x t w) k)) = 0.
Hypothesis noise : forall t, (t < T)%nat ->
  E (fun w => bigsum D (fun k => (P k * (h t w k - grad (x t w) k)) ^ 2)) <= S2.
Hypothesis errors : forall t, (t < T)%nat -> E (fun w => bigsum D (fun k => d t w k ^ 2)) <= D2.

Notation G t := (E (fun w => bigsum D (fun k => P k * grad (x t w) k ^ 2))).
Notation A t := (E (fun w => bigsum D (fun k => gradient_average P beta s h t w k ^ 2))).
Notation F t := (E (fun w => f (y t w))).
Notation GY t := (E (fun w => bigsum D (fun k => P k * grad (y t w) k ^ 2))).
Notation keep := (1 - beta).

Lemma gradient_nonneg : forall z : nat -> nat -> R, 0 <= E (fun w => bigsum D (fun k => P k * grad (z w) k ^ 2)).
Proof.
  intros z. apply expect_nonneg; [exact p_pos|]. intros w _. apply bigsum_nonneg. intros k inside.
  specialize (P_range k inside). apply Rmult_le_pos; [lra|apply pow2_ge_0].
Qed.

Lemma average_nonneg : forall t, 0 <= A t.
Proof.
  intros t. apply expect_nonneg; [exact p_pos|]. intros w _. apply bigsum_nonneg. intros; apply pow2_ge_0.
Qed.

Lemma function_step : forall t, (t < T)%nat -> F (S t) <= F t - g / 2 * G t - g / 2 * GY t
  + g / 2 * M2 * ((g / keep) ^ 2 * (2 * beta ^ 2 * A t + 2 * D2)) + L * g ^ 2 / 2 * (pmax * G t + S2).
Proof.
  intros t steps.
  assert (next := one_step W D p p_pos P pmax L g M2 S2 P_range g_pos L_pos (x t) (y t) (y (S t))
    (fun w => grad (x t w)) (fun w => grad (y t w)) (h t) (fun w => f (y t w)) (fun w => f (y (S t) w))
    (fun w k inside coord => virtual_step W D T P beta g beta_range x y s d h virtual conserved moved t w k steps inside coord)
    (fun w _ => descent (y t w) (y (S t) w)) (fun w _ => lipschitz (x t w) (y t w))
    (fun k coord => unbiased_x t k steps coord) (fun k coord => unbiased_y t k steps coord) (noise t steps)).
  assert (apart := distance_bound W D T p p_pos P beta g x y s d h virtual conserved D2 t steps
    (error_average_bound W D T p p_pos beta beta_range d D2 errors t steps)).
  cbv beta in next. apply (Rmult_le_compat_l (g / 2 * M2)) in apart; [lra|].
  apply Rmult_le_pos; lra.
Qed.

Lemma average_step : forall t, (t < T)%nat -> A (S t) <= beta * A t + keep * (pmax * G t + S2).
Proof.
  intros t steps.
  assert (more := gradient_average_step W D p p_pos P beta beta_range s h t).
  assert (size := second_moment W D p p_pos P pmax S2 P_range (fun w => grad (x t w))
    (h t) (fun k coord => unbiased_x t k steps coord) (noise t steps)).
  cbv beta in size. apply (Rmult_le_compat_l keep) in size; [lra|lra].
Qed.

Notation omega := (g ^ 3 * M2 * beta ^ 2 / keep ^ 3).
Notation left := (1 - L * g * pmax - 2 * beta ^ 2 * g ^ 2 * M2 * pmax / keep ^ 2).
Notation per_step := (L * g ^ 2 * S2 / 2 + g ^ 3 * M2 * (D2 + beta ^ 2 * S2) / keep ^ 2).

Lemma lyapunov_step : forall t, (t < T)%nat ->
  F (S t) + omega * A (S t) <= F t + omega * A t - g / 2 * left * G t + per_step.
Proof.
  intros t steps. assert (fall := function_step t steps). assert (more := average_step t steps).
  assert (0 <= GY t) by apply gradient_nonneg. assert (0 <= A t) by apply average_nonneg.
  assert (0 <= omega).
  { apply Rmult_le_pos; [apply Rmult_le_pos; [apply Rmult_le_pos; [apply pow_le; lra|exact M2_pos]|apply pow2_ge_0]|].
    apply Rlt_le, Rinv_0_lt_compat, pow_lt. lra. }
  apply (Rmult_le_compat_l omega) in more; [|assumption].
  assert (0 <= g / 2 * GY t) by (apply Rmult_le_pos; lra).
  replace (F t + omega * A t - g / 2 * left * G t + per_step) with
    ((F t - g / 2 * G t + g / 2 * M2 * ((g / keep) ^ 2 * (2 * beta ^ 2 * A t + 2 * D2))
      + L * g ^ 2 / 2 * (pmax * G t + S2)) + omega * (beta * A t + keep * (pmax * G t + S2))) by (field; lra).
  lra.
Qed.

Lemma rate : g / 2 * left * bigsum T (fun t => G t)
  <= F 0%nat - lowest + omega * E (fun w => bigsum D (fun k => s 0%nat w k ^ 2)) + INR T * per_step.
Proof.
  assert (sums : forall n, (n <= T)%nat ->
    F n + omega * A n + g / 2 * left * bigsum n (fun t => G t) <= F 0%nat + omega * A 0%nat + INR n * per_step).
  { induction n as [|n before]; intros steps; [simpl; lra|].
    specialize (before ltac:(lia)). assert (one := lyapunov_step n ltac:(lia)). rewrite S_INR. 
    change (bigsum (S n) (fun t => G t)) with (bigsum n (fun t => G t) + G n). lra. }
  specialize (sums T (Nat.le_refl T)).
  assert (lowest <= F T).
  { rewrite <- (expect_const W p lowest p_sum). apply expect_le; [exact p_pos|]. intros; apply below. }
  assert (0 <= A T) by apply average_nonneg.
  assert (0 <= omega).
  { apply Rmult_le_pos; [apply Rmult_le_pos; [apply Rmult_le_pos; [apply pow_le; lra|exact M2_pos]|apply pow2_ge_0]|].
    apply Rlt_le, Rinv_0_lt_compat, pow_lt. lra. }
  assert (0 <= omega * A T) by (apply Rmult_le_pos; assumption).
  change (A 0%nat) with (E (fun w => bigsum D (fun k => s 0%nat w k ^ 2))) in sums. lra.
Qed.

(* Under the Polyak-Lojasiewicz inequality the gap shrinks geometrically, down to a floor. *)
Variables (mu pmin : R).
Hypothesis mu_pos : 0 < mu.
Hypothesis pmin_pos : 0 < pmin.
Hypothesis P_least : forall k, (k < D)%nat -> pmin <= P k.
Hypothesis pl : forall u, 2 * mu * (f u - lowest) <= bigsum D (fun k => grad u k ^ 2).
Notation rho := (1 - g * mu * pmin).
Notation memory := (keep - g * mu * pmin).
Hypothesis memory_pos : 0 < memory.
Notation omega_pl := (g ^ 3 * M2 * beta ^ 2 / (keep ^ 2 * memory)).
Hypothesis room : omega_pl * keep * pmax <= g / 2 * (1 - L * g * pmax).
Notation floor_step := (g ^ 3 * M2 * D2 / keep ^ 2 + L * g ^ 2 * S2 / 2 + omega_pl * keep * S2).

Lemma pl_step : forall t, (t < T)%nat ->
  F (S t) - lowest + omega_pl * A (S t) <= rho * (F t - lowest + omega_pl * A t) + floor_step.
Proof.
  intros t steps. assert (fall := function_step t steps). assert (more := average_step t steps).
  assert (G_pos : 0 <= G t) by apply gradient_nonneg.
  assert (slope : 2 * mu * pmin * (F t - lowest) <= GY t).
  { rewrite <- (expect_const W p lowest p_sum) at 1. rewrite <- expect_minus, <- expect_scal.
    apply expect_le; [exact p_pos|]. intros w inside.
    apply Rle_trans with (pmin * bigsum D (fun k => grad (y t w) k ^ 2)).
    - specialize (pl (y t w)). apply (Rmult_le_compat_l pmin) in pl; lra.
    - rewrite <- bigsum_scal. apply bigsum_le. intros k coord. apply Rmult_le_compat_r; [apply pow2_ge_0|auto]. }
  assert (positive : 0 <= omega_pl).
  { apply Rmult_le_pos; [apply Rmult_le_pos; [apply Rmult_le_pos; [apply pow_le; lra|exact M2_pos]|apply pow2_ge_0]|].
    apply Rlt_le, Rinv_0_lt_compat, Rmult_lt_0_compat; [apply pow_lt|]; lra. }
  apply (Rmult_le_compat_l omega_pl) in more; [|exact positive].
  apply (Rmult_le_compat_l (g / 2)) in slope; [|lra].
  apply (Rmult_le_compat_r (G t)) in room; [|exact G_pos].
  replace (rho * (F t - lowest + omega_pl * A t) + floor_step) with
    (F t - lowest - g * mu * pmin * (F t - lowest) + g / 2 * M2 * ((g / keep) ^ 2 * (2 * beta ^ 2 * A t + 2 * D2))
      + L * g ^ 2 / 2 * S2 + omega_pl * (beta * A t + keep * S2)) by (field; lra).
  lra.
Qed.

Lemma pl_rate : F T - lowest <= rho ^ T * (F 0%nat - lowest + omega_pl * E (fun w => bigsum D (fun k => s 0%nat w k ^ 2)))
  + floor_step * (1 - rho ^ T) / (g * mu * pmin).
Proof.
  assert (shrink : 0 < g * mu * pmin) by (repeat apply Rmult_lt_0_compat; assumption).
  assert (all : forall n, (n <= T)%nat -> F n - lowest + omega_pl * A n
    <= rho ^ n * (F 0%nat - lowest + omega_pl * A 0%nat) + floor_step * (1 - rho ^ n) / (g * mu * pmin)).
  { induction n as [|n before]; intros steps.
    - apply Req_le. change (rho ^ 0) with 1. field. lra.
    - specialize (before ltac:(lia)). assert (one := pl_step n ltac:(lia)).
      apply (Rmult_le_compat_l rho) in before; [|lra]. change (rho ^ S n) with (rho * rho ^ n).
      replace (rho * rho ^ n * (F 0%nat - lowest + omega_pl * A 0%nat) + floor_step * (1 - rho * rho ^ n) / (g * mu * pmin))
        with (rho * (rho ^ n * (F 0%nat - lowest + omega_pl * A 0%nat) + floor_step * (1 - rho ^ n) / (g * mu * pmin)) + floor_step)
        by (field; repeat split; lra).
      lra. }
  specialize (all T (Nat.le_refl T)).
  assert (0 <= omega_pl * A T).
  { apply Rmult_le_pos; [|apply average_nonneg].
    apply Rmult_le_pos; [apply Rmult_le_pos; [apply Rmult_le_pos; [apply pow_le; lra|exact M2_pos]|apply pow2_ge_0]|].
    apply Rlt_le, Rinv_0_lt_compat, Rmult_lt_0_compat; [apply pow_lt|]; lra. }
  change (A 0%nat) with (E (fun w => bigsum D (fun k => s 0%nat w k ^ 2))) in all. lra.
Qed.
End Rate.

(* The gradient of a Lipschitz function depends on the first D coordinates alone. *)
Lemma gradient_of_equal : forall D L2 (grad : (nat -> R) -> nat -> R),
  (forall point place, bigsum D (fun k => (grad place k - grad point k) ^ 2) <= L2 * bigsum D (fun k => (place k - point k) ^ 2)) ->
  forall a b, (forall k, (k < D)%nat -> a k = b k) -> forall k, (k < D)%nat -> grad a k = grad b k.
Proof.
  intros D L2 grad lipschitz a b same k inside.
  specialize (lipschitz b a). rewrite (bigsum_ext D (fun k => (a k - b k) ^ 2) (fun _ => 0)) in lipschitz
    by (intros l below; rewrite same by exact below; ring).
  rewrite bigsum_const in lipschitz.
  assert (none := bigsum_zero D (fun k => (grad a k - grad b k) ^ 2) (fun l _ => pow2_ge_0 _)).
  assert (0 <= bigsum D (fun k => (grad a k - grad b k) ^ 2)) by (apply bigsum_nonneg; intros; apply pow2_ge_0).
  specialize (none ltac:(lra) k inside). cbv beta in none. nra.
Qed.

(* Weighting by P: what is bounded in the Euclidean norm. *)
Lemma weighted_squares : forall D (P u : nat -> R) pmax, (forall k, (k < D)%nat -> 0 <= P k <= pmax) ->
  bigsum D (fun k => (P k * u k) ^ 2) <= pmax ^ 2 * bigsum D (fun k => u k ^ 2).
Proof.
  intros D P u pmax range. rewrite <- bigsum_scal. apply bigsum_le. intros k inside. specialize (range k inside).
  rewrite Rpow_mult_distr. apply Rmult_le_compat_r; [apply pow2_ge_0|]. apply pow_incr. exact range.
Qed.

Lemma weighted_once : forall D (P u : nat -> R) pmax, (forall k, (k < D)%nat -> 0 <= P k <= pmax) ->
  bigsum D (fun k => P k * u k ^ 2) <= pmax * bigsum D (fun k => u k ^ 2).
Proof.
  intros D P u pmax range. rewrite <- bigsum_scal. apply bigsum_le. intros k inside. specialize (range k inside).
  apply Rmult_le_compat_r; [apply pow2_ge_0|lra].
Qed.

Lemma expect_weighted_squares : forall W D p (P : nat -> R) (u : nat -> nat -> R) pmax bound,
  (forall w, (w < W)%nat -> 0 <= p w) -> (forall k, (k < D)%nat -> 0 <= P k <= pmax) ->
  expect W p (fun w => bigsum D (fun k => u w k ^ 2)) <= bound ->
  expect W p (fun w => bigsum D (fun k => (P k * u w k) ^ 2)) <= pmax ^ 2 * bound.
Proof.
  intros W D p P u pmax bound pos range below.
  apply Rle_trans with (pmax ^ 2 * expect W p (fun w => bigsum D (fun k => u w k ^ 2))).
  - rewrite <- expect_scal. apply expect_le; [exact pos|]. intros w _. apply (weighted_squares D P (u w) pmax range).
  - apply Rmult_le_compat_l; [apply pow2_ge_0|exact below].
Qed.
