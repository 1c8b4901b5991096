(* Descent of the virtual iterate under a learning rate that never grows: the momentum is exact if y is taken with the
   rates of the coming steps, averaged; what is left of a change of rate is a multiple of the residual error. Norms are
   those of P, so that weight decay (a quadratic in 1/P) is part of the smooth function. Lemmas only. *)
From Onebit Require Import Prelude Descent.

(* One coordinate: move by e = -eta H + rho u, gradients gx at x and gy at y, H an estimate of gx. *)
Lemma descent_coordinate : forall gx gy H u Lam eta rho, 0 < eta -> 0 <= rho -> 0 <= Lam ->
  gy * (rho * u - eta * H) + Lam / 2 * (rho * u - eta * H) ^ 2
  <= - (eta / 2) * gx ^ 2 + eta / 2 * (gy - gx) ^ 2 + Lam / 2 * (eta * (eta + rho)) * H ^ 2
    + (rho * (rho / eta) + Lam * (rho * (eta + rho))) / 2 * u ^ 2 - eta * (gy * (H - gx)).
Proof.
  intros gx gy H u Lam eta rho eta_pos rho_pos Lam_pos.
  assert (young : 0 <= eta / 2 * (gy - rho / eta * u) ^ 2) by (apply Rmult_le_pos; [lra|apply pow2_ge_0]).
  assert (square : 0 <= Lam / 2 * (eta * rho) * (H + u) ^ 2)
    by (apply Rmult_le_pos; [apply Rmult_le_pos; [lra|apply Rmult_le_pos; lra]|apply pow2_ge_0]).
  match goal with |- ?left <= ?right =>
    replace right with (left + eta / 2 * (gy - rho / eta * u) ^ 2 + Lam / 2 * (eta * rho) * (H + u) ^ 2) by (field; lra) end.
  lra.
Qed.

Section Step.
Variables (W D : nat) (p : nat -> R).
Hypothesis p_pos : forall w, (w < W)%nat -> 0 <= p w.
Notation E := (expect W p).
Variables (P : nat -> R) (Lam eta rho S2 : R).
Hypothesis P_pos : forall k, (k < D)%nat -> 0 <= P k.
Hypothesis eta_pos : 0 < eta.
Hypothesis rho_pos : 0 <= rho.
Hypothesis Lam_pos : 0 <= Lam.
Variables (gx gy H u : nat -> nat -> R) (f f' : nat -> R).
Hypothesis descent : forall w, (w < W)%nat ->
  f' w <= f w + bigsum D (fun k => P k * (gy w k * (rho * u w k - eta * H w k)))
    + Lam / 2 * bigsum D (fun k => P k * (rho * u w k - eta * H w k) ^ 2).
Hypothesis unbiased_x : forall k, (k < D)%nat -> E (fun w => gx w k * (H w k - gx w k)) = 0.
Hypothesis unbiased_y : forall k, (k < D)%nat -> E (fun w => gy w k * (H w k - gx w k)) = 0.
Hypothesis noise : E (fun w => bigsum D (fun k => P k * (H w k - gx w k) ^ 2)) <= S2.

Notation norm v := (E (fun w => bigsum D (fun k => P k * v w k ^ 2))).

Lemma weighted_second_moment : norm H <= norm gx + S2.
Proof.
  rewrite (expect_ext W p (fun w => bigsum D (fun k => P k * H w k ^ 2))
    (fun w => (bigsum D (fun k => P k * gx w k ^ 2) + bigsum D (fun k => P k * (H w k - gx w k) ^ 2))
      + bigsum D (fun k => (2 * P k * gx w k) * (H w k - gx w k)))).
  2:{ intros w _. rewrite <- !bigsum_plus. apply bigsum_ext. intros; ring. }
  rewrite !expect_plus, (expect_linear_zero W p D (fun w k => 2 * P k * gx w k)); [lra|].
  intros k inside. rewrite (expect_ext W p _ (fun w => 2 * P k * (gx w k * (H w k - gx w k)))) by (intros; ring).
  rewrite expect_scal, unbiased_x by exact inside. ring.
Qed.

Lemma scheduled_step : E f' <= E f - eta / 2 * norm gx
  + eta / 2 * E (fun w => bigsum D (fun k => P k * (gy w k - gx w k) ^ 2))
  + Lam / 2 * (eta * (eta + rho)) * (norm gx + S2)
  + (rho * (rho / eta) + Lam * (rho * (eta + rho))) / 2 * norm u.
Proof.
  assert (pointwise : forall w, (w < W)%nat -> f' w <= f w + ((((- (eta / 2) * bigsum D (fun k => P k * gx w k ^ 2)
    + eta / 2 * bigsum D (fun k => P k * (gy w k - gx w k) ^ 2))
    + Lam / 2 * (eta * (eta + rho)) * bigsum D (fun k => P k * H w k ^ 2))
    + (rho * (rho / eta) + Lam * (rho * (eta + rho))) / 2 * bigsum D (fun k => P k * u w k ^ 2))
    + bigsum D (fun k => (- eta * P k * gy w k) * (H w k - gx w k)))).
  { intros w inside. eapply Rle_trans; [apply descent; exact inside|]. rewrite Rplus_assoc. apply Rplus_le_compat_l.
    rewrite <- !bigsum_scal, <- !bigsum_plus. apply bigsum_le. intros k coord.
    assert (one := descent_coordinate (gx w k) (gy w k) (H w k) (u w k) Lam eta rho eta_pos rho_pos Lam_pos).
    apply (Rmult_le_compat_l (P k)) in one; [|apply P_pos; exact coord].
    eapply Rle_trans; [|eapply Rle_trans; [exact one|]]; apply Req_le; ring. }
  apply (expect_le W p p_pos) in pointwise. rewrite !expect_plus, !expect_scal in pointwise.
  rewrite (expect_linear_zero W p D (fun w k => - eta * P k * gy w k)) in pointwise.
  2:{ intros k inside. rewrite (expect_ext W p _ (fun w => - eta * P k * (gy w k * (H w k - gx w k)))) by (intros; ring).
      rewrite expect_scal, unbiased_y by exact inside. ring. }
  assert (size := weighted_second_moment).
  apply (Rmult_le_compat_l (Lam / 2 * (eta * (eta + rho)))) in size; [lra|].
  apply Rmult_le_pos; [lra|apply Rmult_le_pos; lra].
Qed.
End Step.

(* The rate: a Lyapunov function whose weight falls with the learning rate. *)
Section Rate.
Variables (W D T : nat) (p : nat -> R).
Hypothesis p_pos : forall w, (w < W)%nat -> 0 <= p w.
Hypothesis p_sum : bigsum W p = 1.
Notation E := (expect W p).
Variables (P eta : nat -> R) (beta Lam S2 D2 share extra lowest left : R).
Hypothesis P_pos : forall k, (k < D)%nat -> 0 <= P k.
Hypothesis beta_range : 0 < beta < 1.
Hypothesis Lam_pos : 0 <= Lam.
Hypothesis eta_pos : forall t, (t <= T)%nat -> 0 < eta t.
Hypothesis eta_falls : forall t, (t < T)%nat -> eta (S t) <= eta t.
Variables (x y m d h H : nat -> nat -> nat -> R) (f : (nat -> R) -> R) (grad : (nat -> R) -> nat -> R).
Notation keep := (1 - beta).
Hypothesis virtual : forall t w k, (t <= T)%nat -> (w < W)%nat -> (k < D)%nat ->
  y t w k = x t w k - eta t / keep * (P k * (beta * m t w k + d t w k)).
Hypothesis conserved : forall t w k, (t < T)%nat -> (w < W)%nat -> (k < D)%nat ->
  m (S t) w k + d (S t) w k = beta * m t w k + keep * h t w k + d t w k.
Hypothesis moved : forall t w k, (t < T)%nat -> (w < W)%nat -> (k < D)%nat ->
  y (S t) w k = y t w k + P k * ((eta t - eta (S t)) * (d (S t) w k / keep) - eta t * H t w k).
Hypothesis smooth : forall a b v, (forall k, (k < D)%nat -> b k = a k + P k * v k) ->
  f b <= f a + bigsum D (fun k => P k * (grad a k * v k)) + Lam / 2 * bigsum D (fun k => P k * v k ^ 2).
Hypothesis lipschitz : forall a b v, (forall k, (k < D)%nat -> b k = a k + P k * v k) ->
  bigsum D (fun k => P k * (grad b k - grad a k) ^ 2) <= Lam ^ 2 * bigsum D (fun k => P k * v k ^ 2).
Hypothesis below : forall a, lowest <= f a.
Hypothesis unbiased_x : forall t k, (t < T)%nat -> (k < D)%nat ->
  E (fun w => grad (x t w) k * (H t w k - grad (x t w) k)) = 0.
Hypothesis unbiased_y : forall t k, (t < T)%nat -> (k < D)%nat ->
  E (fun w => grad (y t w) k * (H t w k - grad (x t w) k)) = 0.
Hypothesis noise : forall t, (t < T)%nat ->
  E (fun w => bigsum D (fun k => P k * (H t w k - grad (x t w) k) ^ 2)) <= S2.
Hypothesis errors : forall t, (t < T)%nat -> E (fun w => bigsum D (fun k => P k * d t w k ^ 2)) <= D2.
Hypothesis errors_at_change : forall t, (t < T)%nat ->
  (eta t - eta (S t)) * E (fun w => bigsum D (fun k => P k * d (S t) w k ^ 2)) <= (eta t - eta (S t)) * D2.
Notation G t := (E (fun w => bigsum D (fun k => P k * grad (x t w) k ^ 2))).
Hypothesis sampled : forall t, (t < T)%nat ->
  E (fun w => bigsum D (fun k => P k * h t w k ^ 2)) <= share * G t + extra.

Notation root k := (sqrt (P k)).
Notation s := (fun t w k => root k * m t w k).
Notation e := (fun t w k => root k * d t w k).
Notation V t := (E (fun w => bigsum D (fun k => gradient_average (fun k => root k) beta s h t w k ^ 2))).
Notation F t := (E (fun w => f (y t w))).
Notation rho t := (eta t - eta (S t)).

Lemma root_square : forall k c, (k < D)%nat -> (root k * c) ^ 2 = P k * c ^ 2.
Proof.
  intros k c inside. rewrite Rpow_mult_distr. f_equal. rewrite <- Rsqr_pow2. apply Rsqr_sqrt, P_pos, inside.
Qed.

Lemma weighted_average_step : forall t, (t < T)%nat -> V (S t) <= beta * V t + keep * (share * G t + extra).
Proof.
  intros t steps.
  assert (more := gradient_average_step W D p p_pos (fun k => root k) beta beta_range s h t). cbv beta in more.
  rewrite (expect_ext W p (fun w => bigsum D (fun k => (root k * h t w k) ^ 2))
    (fun w => bigsum D (fun k => P k * h t w k ^ 2))) in more
    by (intros w _; apply bigsum_ext; intros; apply root_square; assumption).
  assert (size := sampled t steps). apply (Rmult_le_compat_l keep) in size; lra.
Qed.

Lemma residual_bound : forall t, (t < T)%nat ->
  E (fun w => bigsum D (fun k => P k * (beta * m t w k + d t w k) ^ 2)) <= 2 * beta ^ 2 * V t + 2 * D2.
Proof.
  intros t steps.
  assert (old : E (fun w => bigsum D (fun k => error_average beta e t w k ^ 2)) <= D2).
  { apply (error_average_bound W D T p p_pos beta beta_range e D2); [|exact steps].
    intros n before. eapply Rle_trans; [|apply (errors n before)]. apply Req_le, expect_ext. intros w _.
    apply bigsum_ext. intros k inside. apply root_square, inside. }
  eapply Rle_trans; [|apply Rplus_le_compat_l, Rmult_le_compat_l; [lra|exact old]].
  rewrite <- !expect_scal, <- expect_plus. apply expect_le; [exact p_pos|]. intros w inside.
  rewrite <- !bigsum_scal, <- bigsum_plus. apply bigsum_le. intros k coord.
  rewrite <- root_square by exact coord.
  replace (root k * (beta * m t w k + d t w k)) with (beta * s t w k + e t w k) by ring.
  rewrite (averages W D T (fun k => root k) beta s e h).
  - eapply Rle_trans; [apply square_of_sum|]. apply Req_le. ring.
  - intros n v l before inside_v coord_l. cbv beta.
    rewrite <- Rmult_plus_distr_l, conserved by assumption. ring.
  - lia.
  - exact inside.
  - exact coord.
Qed.

Lemma distance_step : forall t, (t < T)%nat ->
  E (fun w => bigsum D (fun k => P k * (grad (y t w) k - grad (x t w) k) ^ 2))
  <= Lam ^ 2 * (eta t / keep) ^ 2 * (2 * beta ^ 2 * V t + 2 * D2).
Proof.
  intros t steps.
  apply Rle_trans with (Lam ^ 2 * (eta t / keep) ^ 2
    * E (fun w => bigsum D (fun k => P k * (beta * m t w k + d t w k) ^ 2))).
  - rewrite <- expect_scal. apply expect_le; [exact p_pos|]. intros w inside.
    eapply Rle_trans; [apply (lipschitz (x t w) (y t w) (fun k => - (eta t / keep) * (beta * m t w k + d t w k)))|].
    + intros k coord. rewrite virtual by (assumption || lia). ring.
    + apply Req_le. rewrite Rmult_assoc. f_equal. rewrite <- bigsum_scal. apply bigsum_ext. intros; ring.
  - apply Rmult_le_compat_l; [apply Rmult_le_pos; apply pow2_ge_0|apply residual_bound; exact steps].
Qed.

Notation defect t := (rho t * (rho t / eta t) + Lam * (rho t * (eta t + rho t))).
Notation omega t := (Lam ^ 2 * beta ^ 2 * eta t ^ 3 / keep ^ 3).
Notation cost t := (Lam * S2 * (eta t * (eta t + rho t)) + 2 * Lam ^ 2 * eta t ^ 3 * (D2 + beta ^ 2 * extra) / keep ^ 2
  + D2 / keep ^ 2 * defect t).
Hypothesis room : forall t, (t < T)%nat ->
  left <= 1 - Lam * (eta t + rho t) - 2 * share * beta ^ 2 * Lam ^ 2 * eta t ^ 2 / keep ^ 2.

Lemma weighted_nonneg : forall v : nat -> nat -> R, 0 <= E (fun w => bigsum D (fun k => P k * v w k ^ 2)).
Proof.
  intros v. apply expect_nonneg; [exact p_pos|]. intros w _. apply bigsum_nonneg. intros k inside.
  apply Rmult_le_pos; [apply P_pos, inside|apply pow2_ge_0].
Qed.

Lemma weighted_average_nonneg : forall t, 0 <= V t.
Proof. intros t. apply expect_nonneg; [exact p_pos|]. intros w _. apply bigsum_nonneg. intros; apply pow2_ge_0. Qed.

Lemma omega_falls : forall t, (t < T)%nat -> 0 <= omega (S t) <= omega t.
Proof.
  intros t steps. assert (0 < eta (S t)) by (apply eta_pos; lia). specialize (eta_falls t steps).
  assert (0 < / keep ^ 3) by (apply Rinv_0_lt_compat, pow_lt; lra).
  assert (0 <= Lam ^ 2 * beta ^ 2) by (apply Rmult_le_pos; apply pow2_ge_0).
  split.
  - repeat apply Rmult_le_pos; try apply pow2_ge_0; try apply pow_le; lra.
  - apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_l; [assumption|]. apply pow_incr. lra.
Qed.

Lemma scheduled_lyapunov_step : forall t, (t < T)%nat ->
  F (S t) + omega (S t) * V (S t) <= F t + omega t * V t - eta t / 2 * left * G t + cost t / 2.
Proof.
  intros t steps.
  assert (size : 0 < eta t) by (apply eta_pos; lia). assert (falls := eta_falls t steps).
  assert (weights := omega_falls t steps). assert (least := weighted_average_nonneg (S t)).
  assert (large : 0 <= G t) by apply weighted_nonneg.
  assert (more := weighted_average_step t steps). assert (apart := distance_step t steps).
  assert (coefficient := room t steps). assert (last := errors_at_change t steps).
  assert (next := scheduled_step W D p p_pos P Lam (eta t) (rho t) S2 P_pos size ltac:(lra) Lam_pos
    (fun w => grad (x t w)) (fun w => grad (y t w)) (H t) (fun w k => d (S t) w k / keep) (fun w => f (y t w))
    (fun w => f (y (S t) w)) (fun w inside => smooth (y t w) (y (S t) w) _ (fun k coord => moved t w k steps inside coord))
    (fun k coord => unbiased_x t k steps coord) (fun k coord => unbiased_y t k steps coord) (noise t steps)).
  cbv beta in next.
  rewrite (expect_ext W p (fun w => bigsum D (fun k => P k * (d (S t) w k / keep) ^ 2))
    (fun w => / keep ^ 2 * bigsum D (fun k => P k * d (S t) w k ^ 2))) in next
    by (intros w _; rewrite <- bigsum_scal; apply bigsum_ext; intros; field; lra).
  rewrite expect_scal in next.
  set (g := G t) in *. set (v := V t) in *. set (v' := V (S t)) in *. set (now := F t) in *. set (later := F (S t)) in *.
  set (last_error := E (fun w => bigsum D (fun k => P k * d (S t) w k ^ 2))) in *.
  set (far := E (fun w => bigsum D (fun k => P k * (grad (y t w) k - grad (x t w) k) ^ 2))) in *.
  clearbody g v v' now later last_error far.
  set (et := eta t) in *. set (rh := et - eta (S t)) in *.
  assert (rh_pos : 0 <= rh) by (unfold rh; lra).
  set (w1 := omega (S t)) in *. clearbody w1. clearbody rh. clearbody et.
  clear - next weights least large more apart coefficient last size rh_pos beta_range Lam_pos.
  assert (step1 : w1 * v' <= Lam ^ 2 * beta ^ 2 * et ^ 3 / keep ^ 3 * (beta * v + keep * (share * g + extra))).
  { apply Rle_trans with (Lam ^ 2 * beta ^ 2 * et ^ 3 / keep ^ 3 * v').
    - apply Rmult_le_compat_r; lra.
    - apply Rmult_le_compat_l; lra. }
  apply (Rmult_le_compat_l (et / 2)) in apart; [|lra].
  apply (Rmult_le_compat_l (et / 2 * g)) in coefficient; [|apply Rmult_le_pos; lra].
  assert (0 < / keep ^ 2) by (apply Rinv_0_lt_compat, pow_lt; lra).
  assert (0 <= rh / et) by (apply Rmult_le_pos; [lra|apply Rlt_le, Rinv_0_lt_compat; lra]).
  assert (0 <= Lam * (et + rh)) by (apply Rmult_le_pos; lra).
  apply (Rmult_le_compat_l ((rh / et + Lam * (et + rh)) / 2 * / keep ^ 2)) in last; [|apply Rmult_le_pos; lra].
  set (de := rh * (rh / et) + Lam * (rh * (et + rh))) in *.
  replace ((rh / et + Lam * (et + rh)) / 2 * / keep ^ 2 * (rh * last_error)) with (de / 2 * / keep ^ 2 * last_error) in last
    by (unfold de; field; lra).
  replace ((rh / et + Lam * (et + rh)) / 2 * / keep ^ 2 * (rh * D2)) with (de / 2 * / keep ^ 2 * D2) in last
    by (unfold de; field; lra).
  clearbody de.
  rewrite <- (Rmult_assoc (de / 2)) in next.
  apply Rle_trans with ((now - et / 2 * g + et / 2 * (Lam ^ 2 * (et / keep) ^ 2 * (2 * beta ^ 2 * v + 2 * D2))
    + Lam / 2 * (et * (et + rh)) * (g + S2) + de / 2 * / keep ^ 2 * D2)
    + Lam ^ 2 * beta ^ 2 * et ^ 3 / keep ^ 3 * (beta * v + keep * (share * g + extra))); [lra|].
  replace (et / 2 * left * g) with (et / 2 * g * left) by ring.
  apply Rplus_le_reg_r with (et / 2 * g * left).
  match goal with |- _ <= ?right => replace right with (now + Lam ^ 2 * beta ^ 2 * et ^ 3 / keep ^ 3 * v
    + (Lam * S2 * (et * (et + rh)) + 2 * Lam ^ 2 * et ^ 3 * (D2 + beta ^ 2 * extra) / keep ^ 2 + D2 / keep ^ 2 * de) / 2)
    by ring end.
  eapply Rle_trans; [apply Rplus_le_compat_l; exact coefficient|]. apply Req_le. field. lra.
Qed.

Lemma scheduled_rate : left * bigsum T (fun t => eta t * G t) <= 2 * (F 0%nat - lowest)
  + 2 * omega 0%nat * E (fun w => bigsum D (fun k => P k * m 0%nat w k ^ 2)) + bigsum T (fun t => cost t).
Proof.
  assert (sums : forall n, (n <= T)%nat -> F n + omega n * V n + left / 2 * bigsum n (fun t => eta t * G t)
    <= F 0%nat + omega 0%nat * V 0%nat + bigsum n (fun t => cost t) / 2).
  { induction n as [|n before]; intros steps.
    - change (bigsum 0 (fun t => eta t * G t)) with 0. change (bigsum 0 (fun t => cost t)) with 0. lra.
    - specialize (before ltac:(lia)). assert (one := scheduled_lyapunov_step n ltac:(lia)).
      change (bigsum (S n) (fun t => eta t * G t)) with (bigsum n (fun t => eta t * G t) + eta n * G n).
      change (bigsum (S n) (fun t => cost t)) with (bigsum n (fun t => cost t) + cost n).
      set (sum := bigsum n (fun t => eta t * G t)) in *. set (paid := bigsum n (fun t => cost t)) in *.
      set (price := cost n) in *. clearbody sum paid price. 
      replace (left / 2 * (sum + eta n * G n)) with (left / 2 * sum + eta n / 2 * left * G n) by field. lra. }
  specialize (sums T (Nat.le_refl T)).
  assert (lowest <= F T).
  { rewrite <- (expect_const W p lowest p_sum). apply expect_le; [exact p_pos|]. intros; apply below. }
  assert (0 <= omega T * V T).
  { apply Rmult_le_pos; [|apply weighted_average_nonneg].
    apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat, pow_lt; lra].
    repeat apply Rmult_le_pos; try apply pow2_ge_0; try apply pow_le; try lra; apply Rlt_le, eta_pos; lia. }
  assert (first : V 0%nat = E (fun w => bigsum D (fun k => P k * m 0%nat w k ^ 2))).
  { apply expect_ext. intros w _. apply bigsum_ext. intros k inside. apply root_square, inside. }
  rewrite first in sums. lra.
Qed.
End Rate.

(* The averaged rate lies between the last rate and the rate of its step, and never grows. *)
Section Schedule.
Variables (T : nat) (beta : R) (gamma eta : nat -> R).
Hypothesis beta_range : 0 < beta < 1.
Hypothesis falls : forall t, (t < T)%nat -> gamma (t + 1)%nat <= gamma t.
Hypothesis averaged : forall t, (t < T)%nat -> eta t = beta * eta (t + 1)%nat + (1 - beta) * gamma t.
Hypothesis at_end : eta T = gamma T.

Lemma averaged_between : forall n t, (t + n = T)%nat -> gamma T <= eta t <= gamma t.
Proof.
  induction n as [|n after]; intros t sum.
  - replace t with T by lia. lra.
  - specialize (after (t + 1)%nat ltac:(lia)). specialize (falls t ltac:(lia)). rewrite averaged by lia.
    clear averaged at_end. nra.
Qed.

Lemma averaged_falls : forall t, (t < T)%nat -> eta (t + 1)%nat <= eta t.
Proof.
  intros t steps. assert (range := averaged_between (T - (t + 1)) (t + 1) ltac:(lia)).
  specialize (falls t steps). rewrite (averaged t steps). clear averaged at_end. nra.
Qed.

Lemma first_is_largest : forall t, (t <= T)%nat -> gamma t <= gamma 0%nat.
Proof.
  induction t as [|t before]; intros steps; [lra|].
  specialize (before ltac:(lia)). specialize (falls t ltac:(lia)). rewrite Nat.add_1_r in falls. lra.
Qed.
End Schedule.

(* From the Euclidean norm to the norms of P. *)
Section Weighted.
Variables (D : nat) (P : nat -> R) (pmax L : R) (f : (nat -> R) -> R) (grad : (nat -> R) -> nat -> R).
Hypothesis P_range : forall k, (k < D)%nat -> 0 <= P k <= pmax.
Hypothesis pmax_pos : 0 < pmax.
Hypothesis L_pos : 0 < L.
Hypothesis descent : forall a b,
  f b <= L * bigsum D (fun k => (b k - a k) ^ 2) / 2 + f a + bigsum D (fun k => (b k - a k) * grad a k).
Hypothesis lipschitz : forall a b,
  bigsum D (fun k => (grad b k - grad a k) ^ 2) <= L ^ 2 * bigsum D (fun k => (b k - a k) ^ 2).

Lemma displacement : forall a b v, (forall k, (k < D)%nat -> b k = a k + P k * v k) ->
  bigsum D (fun k => (b k - a k) ^ 2) <= pmax * bigsum D (fun k => P k * v k ^ 2).
Proof.
  intros a b v moved. rewrite <- bigsum_scal. apply bigsum_le. intros k inside. rewrite moved by exact inside.
  specialize (P_range k inside). replace ((a k + P k * v k - a k) ^ 2) with (P k * (P k * v k ^ 2)) by ring.
  apply Rmult_le_compat_r; [apply Rmult_le_pos; [lra|apply pow2_ge_0]|lra].
Qed.

Lemma weighted_descent : forall a b v, (forall k, (k < D)%nat -> b k = a k + P k * v k) ->
  f b <= f a + bigsum D (fun k => P k * (grad a k * v k)) + pmax * L / 2 * bigsum D (fun k => P k * v k ^ 2).
Proof.
  intros a b v moved. eapply Rle_trans; [apply (descent a b)|].
  assert (size := displacement a b v moved). apply (Rmult_le_compat_l (L / 2)) in size; [|lra].
  rewrite (bigsum_ext D (fun k => (b k - a k) * grad a k) (fun k => P k * (grad a k * v k)))
    by (intros k inside; rewrite moved by exact inside; ring).
  lra.
Qed.

Lemma weighted_lipschitz : forall a b v, (forall k, (k < D)%nat -> b k = a k + P k * v k) ->
  bigsum D (fun k => P k * (grad b k - grad a k) ^ 2) <= (pmax * L) ^ 2 * bigsum D (fun k => P k * v k ^ 2).
Proof.
  intros a b v moved. assert (size := displacement a b v moved).
  eapply Rle_trans; [apply (weighted_once D P (fun k => grad b k - grad a k) pmax P_range)|].
  replace ((pmax * L) ^ 2 * bigsum D (fun k => P k * v k ^ 2))
    with (pmax * (L ^ 2 * (pmax * bigsum D (fun k => P k * v k ^ 2)))) by ring.
  apply Rmult_le_compat_l; [lra|]. eapply Rle_trans; [apply lipschitz|].
  apply Rmult_le_compat_l; [apply pow2_ge_0|exact size].
Qed.
End Weighted.

(* f plus half of lambda times the square in the norm of 1/P. *)
Section Regularised.
Variables (D : nat) (P : nat -> R) (pmax L decay : R) (f : (nat -> R) -> R) (grad : (nat -> R) -> nat -> R).
Hypothesis P_positive : forall k, (k < D)%nat -> 0 < P k.
Hypothesis stiff : 0 < pmax * L.
Hypothesis decay_pos : 0 <= decay.
Hypothesis smooth : forall a b v, (forall k, (k < D)%nat -> b k = a k + P k * v k) ->
  f b <= f a + bigsum D (fun k => P k * (grad a k * v k)) + pmax * L / 2 * bigsum D (fun k => P k * v k ^ 2).
Hypothesis lipschitz : forall a b v, (forall k, (k < D)%nat -> b k = a k + P k * v k) ->
  bigsum D (fun k => P k * (grad b k - grad a k) ^ 2) <= (pmax * L) ^ 2 * bigsum D (fun k => P k * v k ^ 2).

Definition regularised (u : nat -> R) : R := f u + decay / 2 * bigsum D (fun k => u k ^ 2 / P k).
Definition regularised_slope (u : nat -> R) (k : nat) : R := grad u k + decay * u k / P k.

Lemma regularised_smooth : forall a b v, (forall k, (k < D)%nat -> b k = a k + P k * v k) ->
  regularised b <= regularised a + bigsum D (fun k => P k * (regularised_slope a k * v k))
    + (pmax * L + decay) / 2 * bigsum D (fun k => P k * v k ^ 2).
Proof.
  intros a b v moved. assert (below := smooth a b v moved). unfold regularised, regularised_slope.
  rewrite (bigsum_ext D (fun k => b k ^ 2 / P k) (fun k => (a k ^ 2 / P k + 2 * (a k * v k)) + P k * v k ^ 2))
    by (intros k inside; rewrite moved by exact inside; specialize (P_positive k inside); field; lra).
  rewrite (bigsum_ext D (fun k => P k * ((grad a k + decay * a k / P k) * v k))
    (fun k => P k * (grad a k * v k) + decay * (a k * v k)))
    by (intros k inside; specialize (P_positive k inside); field; lra).
  rewrite !bigsum_plus, !bigsum_scal. lra.
Qed.

Lemma regularised_lipschitz : forall a b v, (forall k, (k < D)%nat -> b k = a k + P k * v k) ->
  bigsum D (fun k => P k * (regularised_slope b k - regularised_slope a k) ^ 2)
  <= (pmax * L + decay) ^ 2 * bigsum D (fun k => P k * v k ^ 2).
Proof.
  intros a b v moved. assert (below := lipschitz a b v moved). set (l := pmax * L) in *.
  apply Rle_trans with ((1 + decay / l) * bigsum D (fun k => P k * (grad b k - grad a k) ^ 2)
    + (decay ^ 2 + decay * l) * bigsum D (fun k => P k * v k ^ 2)).
  - rewrite <- !bigsum_scal, <- bigsum_plus. apply bigsum_le. intros k inside. assert (large := P_positive k inside).
    unfold regularised_slope. set (change := grad b k - grad a k).
    replace (grad b k + decay * b k / P k - (grad a k + decay * a k / P k)) with (change + decay * v k)
      by (unfold change; rewrite moved by exact inside; field; lra).
    assert (square : 0 <= P k * (decay / l) * (change - l * v k) ^ 2)
      by (apply Rmult_le_pos; [apply Rmult_le_pos; [lra|apply Rmult_le_pos; [lra|apply Rlt_le, Rinv_0_lt_compat, stiff]]
        |apply pow2_ge_0]).
    match goal with |- ?small <= ?big => replace big with (small + P k * (decay / l) * (change - l * v k) ^ 2) by (field; lra) end.
    lra.
  - assert (0 <= decay / l) by (apply Rmult_le_pos; [lra|apply Rlt_le, Rinv_0_lt_compat, stiff]).
    apply (Rmult_le_compat_l (1 + decay / l)) in below; [|lra].
    replace ((l + decay) ^ 2) with ((1 + decay / l) * l ^ 2 + (decay ^ 2 + decay * l)) by (field; lra).
    lra.
Qed.
End Regularised.

Lemma expect_weighted_once : forall W D p (P : nat -> R) (u : nat -> nat -> R) pmax bound,
  (forall w, (w < W)%nat -> 0 <= p w) -> (forall k, (k < D)%nat -> 0 <= P k <= pmax) -> 0 <= pmax ->
  expect W p (fun w => bigsum D (fun k => u w k ^ 2)) <= bound ->
  expect W p (fun w => bigsum D (fun k => P k * u w k ^ 2)) <= pmax * bound.
Proof.
  intros W D p P u pmax bound pos range pmax_pos below.
  apply Rle_trans with (pmax * expect W p (fun w => bigsum D (fun k => u w k ^ 2))).
  - rewrite <- expect_scal. apply expect_le; [exact pos|]. intros w _. apply (weighted_once D P (u w) pmax range).
  - apply Rmult_le_compat_l; [exact pmax_pos|exact below].
Qed.
