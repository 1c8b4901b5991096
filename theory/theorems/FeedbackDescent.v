(* One step of two-sided error feedback with momentum decreases ||z||^2 + weight * mean ||delta_i||^2, where z is the
   shared momentum plus the whole residual; then the rate without an assumed error. Lemmas only. *)
From Onebit Require Import Prelude Descent.

Definition average (N : nat) (f : nat -> R) : R := bigsum N f / INR N.

Lemma average_le : forall N f g, (1 <= N)%nat -> (forall i, (i < N)%nat -> f i <= g i) -> average N f <= average N g.
Proof.
  intros N f g some below. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, lt_0_INR; lia|].
  apply bigsum_le. exact below.
Qed.

Lemma average_ext : forall N f g, (forall i, (i < N)%nat -> f i = g i) -> average N f = average N g.
Proof. intros N f g same. unfold average. rewrite (bigsum_ext N f g same). reflexivity. Qed.

Lemma average_plus : forall N f g, average N (fun i => f i + g i) = average N f + average N g.
Proof. intros. unfold average, Rdiv. rewrite bigsum_plus. ring. Qed.

Lemma average_scal : forall N c f, average N (fun i => c * f i) = c * average N f.
Proof. intros. unfold average, Rdiv. rewrite bigsum_scal. ring. Qed.

Lemma average_const : forall N c, (1 <= N)%nat -> average N (fun _ => c) = c.
Proof. intros N c some. unfold average. rewrite bigsum_const. field. apply not_0_INR. lia. Qed.

Lemma average_sum : forall N D (f : nat -> nat -> R),
  bigsum D (fun k => average N (fun i => f i k)) = average N (fun i => bigsum D (f i)).
Proof. intros. unfold average, Rdiv. rewrite bigsum_scal_r. f_equal. symmetry. apply bigsum_swap. Qed.

Lemma expect_average : forall W p N (f : nat -> nat -> R),
  expect W p (fun w => average N (fun i => f i w)) = average N (fun i => expect W p (f i)).
Proof.
  intros W p N f. unfold average, Rdiv.
  rewrite (expect_ext W p _ (fun w => / INR N * bigsum N (fun i => f i w))) by (intros w _; apply Rmult_comm).
  rewrite expect_scal, (expect_sum W p N (fun w i => f i w)). apply Rmult_comm.
Qed.

Lemma square_of_mean : forall N f, (1 <= N)%nat -> average N f ^ 2 <= average N (fun i => f i ^ 2).
Proof.
  intros N f some. assert (positive : 0 < INR N) by (apply lt_0_INR; lia).
  assert (bound := bigsum_cauchy_schwarz N f (fun _ => 1)). cbv beta in bound.
  rewrite (bigsum_ext N (fun k => f k * 1) f) in bound by (intros; ring).
  rewrite (bigsum_ext N (fun _ => 1 ^ 2) (fun _ => 1)) in bound by (intros; ring).
  rewrite bigsum_const in bound. unfold average.
  replace ((bigsum N f / INR N) ^ 2) with (bigsum N f ^ 2 / INR N ^ 2) by (field; lra).
  apply Rmult_le_reg_r with (INR N ^ 2); [apply pow_lt; exact positive|].
  replace (bigsum N f ^ 2 / INR N ^ 2 * INR N ^ 2) with (bigsum N f ^ 2) by (field; lra).
  replace (bigsum N (fun i => f i ^ 2) / INR N * INR N ^ 2) with (bigsum N (fun i => f i ^ 2) * INR N) by (field; lra).
  lra.
Qed.

Lemma bigsum_single : forall n f i, (i < n)%nat -> (forall j, (j < n)%nat -> j <> i -> f j = 0) -> bigsum n f = f i.
Proof.
  induction n; intros f i below others; [lia|]. simpl. destruct (Nat.eq_dec i n) as [->|differs].
  - rewrite (bigsum_ext n f (fun _ => 0)) by (intros j small; apply others; lia). rewrite bigsum_const. ring.
  - rewrite (others n) by lia. rewrite (IHn f i) by (lia || intros; apply others; lia). ring.
Qed.

Lemma square_of_bigsum : forall n f, bigsum n f ^ 2 = bigsum n (fun i => bigsum n (fun j => f i * f j)).
Proof.
  intros n f. rewrite (bigsum_ext n (fun i => bigsum n (fun j => f i * f j)) (fun i => f i * bigsum n f))
    by (intros; rewrite bigsum_scal; reflexivity).
  rewrite bigsum_scal_r. ring.
Qed.

(* Noise of N uncorrelated workers: the mean has an N-th of one worker's variance. *)
Lemma variance_of_mean : forall W D N p (noise : nat -> nat -> nat -> R) s2, (1 <= N)%nat ->
  (forall i j k, (i < N)%nat -> (j < N)%nat -> (k < D)%nat -> i <> j -> expect W p (fun w => noise w i k * noise w j k) = 0) ->
  (forall i, (i < N)%nat -> expect W p (fun w => bigsum D (fun k => noise w i k ^ 2)) <= s2) ->
  expect W p (fun w => bigsum D (fun k => average N (fun i => noise w i k) ^ 2)) <= s2 / INR N.
Proof.
  intros W D N p noise s2 some apart each. assert (positive : 0 < INR N) by (apply lt_0_INR; lia).
  rewrite expect_sum.
  rewrite (bigsum_ext D _ (fun k => / INR N ^ 2 * bigsum N (fun i => expect W p (fun w => noise w i k ^ 2)))).
  - rewrite bigsum_scal, <- bigsum_swap.
    assert (all : bigsum N (fun i => bigsum D (fun k => expect W p (fun w => noise w i k ^ 2))) <= bigsum N (fun _ => s2)).
    { apply bigsum_le. intros i below. rewrite <- expect_sum. apply each. exact below. }
    rewrite bigsum_const in all. apply (Rmult_le_compat_l (/ INR N ^ 2)) in all;
      [|apply Rlt_le, Rinv_0_lt_compat, pow_lt; exact positive].
    eapply Rle_trans; [exact all|]. apply Req_le. field. lra.
  - intros k inside.
    rewrite (expect_ext W p _ (fun w => / INR N ^ 2 * bigsum N (fun i => bigsum N (fun j => noise w i k * noise w j k)))).
    2:{ intros w _. rewrite <- square_of_bigsum. unfold average. field. lra. }
    rewrite expect_scal, expect_sum. f_equal. apply bigsum_ext. intros i below.
    rewrite (expect_sum W p N (fun w j => noise w i k * noise w j k)).
    rewrite (bigsum_single N _ i below) by (intros j inside_j differs; apply apart; auto).
    apply expect_ext. intros; ring.
Qed.

(* ---- the quadratic form: a scalar inequality ---- *)

Section Form.
Variables (beta q : R).
Hypothesis beta_range : 0 < beta < 1.
Hypothesis q_range : 0 < q < 1.
Notation weight := ((1 - beta) / (q * beta)).
Notation decay := ((1 - beta ^ 2) * (1 - q) / (1 + q)).

Lemma decay_range : 0 < decay < 1.
Proof.
  assert (0 < (1 - beta ^ 2) * (1 - q)) by (apply Rmult_lt_0_compat; nra).
  split; [apply Rdiv_lt_0_compat; lra|]. apply Rmult_lt_reg_r with (1 + q); [lra|].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. nra.
Qed.

(* m: shared momentum; a: mean of the worker errors; s >= a^2: mean of their squares; b: server error. *)
Lemma form_decreases : forall m a b s, a ^ 2 <= s ->
  (beta * m + a + b) ^ 2 + weight * q ^ 2 * (beta ^ 2 * m ^ 2 + 2 * beta * m * a + s)
    + (1 - beta) / q * (q ^ 2 * (m + b) ^ 2 - b ^ 2)
  <= (1 - decay) * ((m + a + b) ^ 2 + weight * s).
Proof.
  intros m a b s square. set (z := m + a + b).
  assert (spread : 0 <= weight * (1 - decay - q ^ 2) * (s - a ^ 2)).
  { apply Rmult_le_pos; [apply Rmult_le_pos|lra].
    - apply Rlt_le, Rdiv_lt_0_compat; [lra|apply Rmult_lt_0_compat; lra].
    - replace (1 - decay - q ^ 2) with ((2 * q + beta ^ 2 * (1 - q) - q ^ 2 - q ^ 3) / (1 + q)) by (field; lra).
      apply Rlt_le, Rdiv_lt_0_compat; [|lra]. assert (0 < beta ^ 2 * (1 - q)) by (apply Rmult_lt_0_compat; nra). nra. }
  assert (top : 0 < - beta ^ 2 + beta * q + beta + 1) by nra.
  assert (some : 0 < 1 + beta * q) by nra.
  set (zz := q ^ 2 * (- beta ^ 2 + beta * q + beta + 1) / ((1 + q) * (1 + beta * q))).
  set (det := q ^ 2 * (1 - beta ^ 2) * (beta ^ 2 + beta * q ^ 2 + beta * q + q ^ 2 + 2 * q)
    / (beta * (1 + q) ^ 2 * (1 + beta * q))).
  set (c := (1 + q) * beta * q / (1 + beta * q)).
  assert (zz_pos : 0 < zz).
  { unfold zz. apply Rdiv_lt_0_compat; apply Rmult_lt_0_compat; try lra. apply pow_lt. lra. }
  assert (det_pos : 0 <= det).
  { unfold det. apply Rlt_le, Rdiv_lt_0_compat; repeat apply Rmult_lt_0_compat; try apply pow_lt; try lra; nra. }
  assert (body : (1 - decay) * (z ^ 2 + weight * s)
    - ((beta * m + a + b) ^ 2 + weight * q ^ 2 * (beta ^ 2 * m ^ 2 + 2 * beta * m * a + s)
    + (1 - beta) / q * (q ^ 2 * (m + b) ^ 2 - b ^ 2))
    = weight * (1 - decay - q ^ 2) * (s - a ^ 2)
    + (1 - beta) * (1 - q) / q * ((1 + beta * q) * (m - (z - (1 + q) * a) / (1 + beta * q)) ^ 2
      + ((zz * z - c * a) ^ 2 + det * a ^ 2) / zz)).
  { unfold zz, det, c, z. field. repeat split; lra. }
  assert (0 <= (1 - beta) * (1 - q) / q * ((1 + beta * q) * (m - (z - (1 + q) * a) / (1 + beta * q)) ^ 2
      + ((zz * z - c * a) ^ 2 + det * a ^ 2) / zz)).
  { apply Rmult_le_pos; [apply Rlt_le, Rdiv_lt_0_compat; [apply Rmult_lt_0_compat|]; lra|].
    apply Rplus_le_le_0_compat; [apply Rmult_le_pos; [lra|apply pow2_ge_0]|].
    apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat; exact zz_pos].
    apply Rplus_le_le_0_compat; [apply pow2_ge_0|apply Rmult_le_pos; [exact det_pos|apply pow2_ge_0]]. }
  lra.
Qed.

(* How far the parameters are from the virtual iterate, in units of lr and output weight. *)
Notation ratio := (beta / (1 - beta)).
Notation reach := ((ratio + q) * (ratio + 2 * q / (1 + q))).

Lemma distance_form : forall m a b s, a ^ 2 <= s ->
  (ratio * (m + a + b) + a + b) ^ 2 + (ratio + q) / q * (q ^ 2 * (m + b) ^ 2 - b ^ 2)
  <= reach * ((m + a + b) ^ 2 + weight * s).
Proof.
  intros m a b s square. set (z := m + a + b).
  assert (positive : 0 < ratio) by (apply Rdiv_lt_0_compat; lra).
  assert (theta : 0 < q * (1 - q) / (1 + q)) by (apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat|]; lra).
  assert (twice : 0 < 2 * q / (1 + q)) by (apply Rdiv_lt_0_compat; lra).
  assert (large : 0 < weight) by (apply Rdiv_lt_0_compat; [lra|apply Rmult_lt_0_compat; lra]).
  assert (body : reach * (z ^ 2 + weight * s) - ((ratio * z + a + b) ^ 2 + (ratio + q) / q * (q ^ 2 * (m + b) ^ 2 - b ^ 2))
    = reach * weight * (s - a ^ 2) + ratio / q * (b - q / ratio * (ratio * z + a)) ^ 2
    + (q + ratio) * (q * (1 - q) / (1 + q) * (z - (1 + q) / q * a) ^ 2 + q * (1 - q) / (1 + q) * weight * a ^ 2)).
  { unfold z. field. repeat split; lra. }
  assert (0 <= reach * weight * (s - a ^ 2)).
  { apply Rmult_le_pos; [apply Rmult_le_pos; [apply Rmult_le_pos|]|]; lra. }
  assert (0 <= ratio / q * (b - q / ratio * (ratio * z + a)) ^ 2).
  { apply Rmult_le_pos; [apply Rlt_le, Rdiv_lt_0_compat; lra|apply pow2_ge_0]. }
  assert (0 <= (q + ratio) * (q * (1 - q) / (1 + q) * (z - (1 + q) / q * a) ^ 2 + q * (1 - q) / (1 + q) * weight * a ^ 2)).
  { apply Rmult_le_pos; [lra|]. apply Rplus_le_le_0_compat; apply Rmult_le_pos; try apply pow2_ge_0; try lra.
    apply Rmult_le_pos; lra. }
  lra.
Qed.

(* e: the decay, by another name. *)
Variable e : R.
Hypothesis e_is : e = decay.

Lemma e_range : 0 < e < 1.
Proof. rewrite e_is. exact decay_range. Qed.

(* A drift and a forcing, by convexity of the square: half of the decay pays for it. *)
Lemma forced_square : forall u v, (u + (1 - beta) * v) ^ 2
  <= / (1 - e / 2) * u ^ 2 + (1 - beta) ^ 2 * 2 / e * v ^ 2.
Proof.
  intros u v. assert (range := e_range).
  replace (/ (1 - e / 2) * u ^ 2 + (1 - beta) ^ 2 * 2 / e * v ^ 2) with
    ((u + (1 - beta) * v) ^ 2 + (e / 2 * u - (1 - e / 2) * (1 - beta) * v) ^ 2 / (e / 2 * (1 - e / 2))) by (field; lra).
  assert (0 <= (e / 2 * u - (1 - e / 2) * (1 - beta) * v) ^ 2 / (e / 2 * (1 - e / 2))).
  { apply Rmult_le_pos; [apply pow2_ge_0|]. apply Rlt_le, Rinv_0_lt_compat, Rmult_lt_0_compat; lra. }
  lra.
Qed.

Lemma half_decay : / (1 - e / 2) * (1 - e) <= 1 - e / 2.
Proof.
  assert (range := e_range).
  apply Rmult_le_reg_l with (1 - e / 2); [lra|]. rewrite <- Rmult_assoc, Rinv_r by lra. nra.
Qed.

(* One step of the state's quadratic form V, for given drift gradients. *)
Section State.
Variables (N D : nat).
Hypothesis some : (1 <= N)%nat.
Definition state_square (m b : nat -> R) (delta : nat -> nat -> R) : R :=
  bigsum D (fun k => (m k + average N (fun i => delta i k) + b k) ^ 2)
  + weight * bigsum D (fun k => average N (fun i => delta i k ^ 2)).
Variables (m b : nat -> R) (delta drift : nat -> nat -> R).
Notation a k := (average N (fun i => delta i k)).
Notation gain := ((1 - beta) ^ 2 * 2 / e).
Hypothesis server : bigsum D (fun k => b k ^ 2) <= q ^ 2 * bigsum D (fun k => (m k + b k) ^ 2).

Lemma server_slack : forall nu, 0 <= nu -> 0 <= bigsum D (fun k => nu * (q ^ 2 * (m k + b k) ^ 2 - b k ^ 2)).
Proof. intros nu pos. rewrite bigsum_scal, bigsum_minus, bigsum_scal. apply Rmult_le_pos; [exact pos|lra]. Qed.

Lemma distance_square :
  bigsum D (fun k => (ratio * (m k + a k + b k) + a k + b k) ^ 2) <= reach * state_square m b delta.
Proof.
  assert (positive : 0 < ratio) by (apply Rdiv_lt_0_compat; lra).
  assert (slack := server_slack ((ratio + q) / q) (Rlt_le _ _ (Rdiv_lt_0_compat (ratio + q) q ltac:(lra) ltac:(lra)))).
  assert (form : bigsum D (fun k => (ratio * (m k + a k + b k) + a k + b k) ^ 2
    + (ratio + q) / q * (q ^ 2 * (m k + b k) ^ 2 - b k ^ 2)) <= bigsum D (fun k => reach * ((m k + a k + b k) ^ 2
    + weight * average N (fun i => delta i k ^ 2)))).
  { apply bigsum_le. intros k _. apply distance_form. apply square_of_mean. exact some. }
  rewrite ?bigsum_plus, ?bigsum_scal, ?bigsum_plus, ?bigsum_scal in form. rewrite ?bigsum_scal in slack.
  unfold state_square. lra.
Qed.

Lemma drift_decrease :
  bigsum D (fun k => (beta * m k + a k + b k + (1 - beta) * average N (fun i => drift i k)) ^ 2)
  + weight * (q ^ 2 * average N (fun i => bigsum D (fun k => (beta * m k + delta i k + (1 - beta) * drift i k) ^ 2)))
  <= (1 - e / 2) * state_square m b delta
    + gain * (1 + (1 - beta) * q / beta) * average N (fun i => bigsum D (fun k => drift i k ^ 2)).
Proof.
  assert (range := e_range). assert (half := half_decay).
  assert (large : 0 < weight) by (apply Rdiv_lt_0_compat; [lra|apply Rmult_lt_0_compat; lra]).
  assert (good : 0 < gain) by (apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat; [apply pow_lt|]|]; lra).
  assert (squares : forall k, average N (fun i => (beta * m k + delta i k) ^ 2)
    = beta ^ 2 * m k ^ 2 + 2 * beta * m k * a k + average N (fun i => delta i k ^ 2)).
  { intros k. rewrite (average_ext N _ (fun i => (beta ^ 2 * m k ^ 2 + (2 * beta * m k) * delta i k) + delta i k ^ 2))
      by (intros; ring). rewrite !average_plus, average_const, average_scal by exact some. reflexivity. }
  (* the form, summed *)
  assert (slack := server_slack ((1 - beta) / q) (Rlt_le _ _ (Rdiv_lt_0_compat (1 - beta) q ltac:(lra) ltac:(lra)))).
  assert (form : bigsum D (fun k => ((beta * m k + a k + b k) ^ 2
      + weight * q ^ 2 * average N (fun i => (beta * m k + delta i k) ^ 2))
      + (1 - beta) / q * (q ^ 2 * (m k + b k) ^ 2 - b k ^ 2))
    <= bigsum D (fun k => (1 - e) * ((m k + a k + b k) ^ 2 + weight * average N (fun i => delta i k ^ 2)))).
  { apply bigsum_le. intros k _. rewrite squares. rewrite e_is. apply form_decreases. apply square_of_mean. exact some. }
  rewrite ?bigsum_plus, ?bigsum_scal, ?bigsum_plus, ?bigsum_scal in form. rewrite ?bigsum_scal in slack.
  (* the forcing *)
  assert (shared : bigsum D (fun k => (beta * m k + a k + b k + (1 - beta) * average N (fun i => drift i k)) ^ 2)
    <= bigsum D (fun k => / (1 - e / 2) * (beta * m k + a k + b k) ^ 2 + gain * average N (fun i => drift i k ^ 2))).
  { apply bigsum_le. intros k _. eapply Rle_trans; [apply forced_square|].
    assert (means := square_of_mean N (fun i => drift i k) some).
    apply (Rmult_le_compat_l gain) in means; [|lra]. lra. }
  assert (each : average N (fun i => bigsum D (fun k => (beta * m k + delta i k + (1 - beta) * drift i k) ^ 2))
    <= average N (fun i => / (1 - e / 2) * bigsum D (fun k => (beta * m k + delta i k) ^ 2)
      + gain * bigsum D (fun k => drift i k ^ 2))).
  { apply average_le; [exact some|]. intros i _. rewrite <- !bigsum_scal, <- bigsum_plus. apply bigsum_le.
    intros k _. apply forced_square. }
  rewrite bigsum_plus, !bigsum_scal in shared. rewrite average_plus, !average_scal in each.
  rewrite (average_sum N D (fun i k => drift i k ^ 2)) in shared.
  rewrite (average_sum N D (fun i k => (beta * m k + delta i k) ^ 2)) in form.
  set (Z0 := bigsum D (fun k => (beta * m k + a k + b k) ^ 2)) in *.
  set (U0 := average N (fun i => bigsum D (fun k => (beta * m k + delta i k) ^ 2))) in *.
  set (G0 := average N (fun i => bigsum D (fun k => drift i k ^ 2))) in *.
  assert (total : Z0 + weight * q ^ 2 * U0 <= (1 - e) * state_square m b delta) by (unfold state_square; lra).
  assert (inverse : 0 < / (1 - e / 2)) by (apply Rinv_0_lt_compat; lra).
  assert (nonneg : 0 <= state_square m b delta).
  { unfold state_square. apply Rplus_le_le_0_compat; [apply bigsum_nonneg; intros; apply pow2_ge_0|].
    apply Rmult_le_pos; [lra|]. apply bigsum_nonneg. intros k _.
    eapply Rle_trans; [|apply (square_of_mean N (fun i => delta i k) some)]. apply pow2_ge_0. }
  apply (Rmult_le_compat_l (/ (1 - e / 2))) in total; [|lra].
  apply (Rmult_le_compat_l (weight * q ^ 2)) in each; [|apply Rmult_le_pos; [lra|apply pow2_ge_0]].
  apply (Rmult_le_compat_r (state_square m b delta)) in half; [|exact nonneg].
  replace (gain * (1 + (1 - beta) * q / beta) * G0) with (gain * G0 + weight * q ^ 2 * (gain * G0)) by (field; repeat split; lra).
  lra.
Qed.
End State.
End Form.

(* ---- the algorithm: N workers, two compressors, input weight Q and output weight O with Q O = P ---- *)

Section Algorithm.
Variables (W D T N : nat) (p : nat -> R).
Hypothesis some : (1 <= N)%nat.
Hypothesis p_pos : forall w, (w < W)%nat -> 0 <= p w.
Hypothesis p_sum : bigsum W p = 1.
Notation E := (expect W p).
Variables (P Q O : nat -> R) (beta q g L M2 pmax omax B2 Z2 s2 lowest e : R).
Hypothesis beta_range : 0 < beta < 1.
Hypothesis q_range : 0 < q < 1.
Hypothesis e_is : e = (1 - beta ^ 2) * (1 - q) / (1 + q).
Hypothesis g_pos : 0 < g.
Hypothesis L_pos : 0 <= L.
Hypothesis M2_pos : 0 <= M2.
Hypothesis split : forall k, (k < D)%nat -> P k = O k * Q k.
Hypothesis P_range : forall k, (k < D)%nat -> 0 <= P k <= pmax.
Hypothesis O_range : forall k, (k < D)%nat -> 0 <= O k <= omax.
Variables (past : nat -> nat -> R) (x m b y : nat -> nat -> nat -> R) (delta message sampled : nat -> nat -> nat -> nat -> R).
Variables (f : (nat -> R) -> R) (grad : (nat -> R) -> nat -> R) (local : nat -> (nat -> R) -> nat -> R).
Hypothesis worker_feedback : forall t w i k, (t < T)%nat -> (w < W)%nat -> (i < N)%nat -> (k < D)%nat ->
  delta (S t) w i k = beta * m t w k + (1 - beta) * (Q k * sampled t w i k) + delta t w i k - message t w i k.
Hypothesis server_feedback : forall t w k, (t < T)%nat -> (w < W)%nat -> (k < D)%nat ->
  b (S t) w k = average N (fun i => message t w i k) + b t w k - m (S t) w k.
Hypothesis worker_contracts : forall t w i, (t < T)%nat -> (w < W)%nat -> (i < N)%nat ->
  bigsum D (fun k => delta (S t) w i k ^ 2)
  <= q ^ 2 * bigsum D (fun k => (beta * m t w k + (1 - beta) * (Q k * sampled t w i k) + delta t w i k) ^ 2).
Hypothesis server_contracts : forall t w, (t < T)%nat -> (w < W)%nat ->
  bigsum D (fun k => b (S t) w k ^ 2) <= q ^ 2 * bigsum D (fun k => (average N (fun i => message t w i k) + b t w k) ^ 2).
Hypothesis worker_start : forall w i k, (w < W)%nat -> (i < N)%nat -> (k < D)%nat -> delta 0%nat w i k = 0.
Hypothesis server_start : forall w k, (w < W)%nat -> (k < D)%nat -> b 0%nat w k = 0.
Hypothesis moved : forall t w k, (t < T)%nat -> (w < W)%nat -> (k < D)%nat -> x (S t) w k = x t w k - g * (O k * m (S t) w k).
Hypothesis virtual : forall t w k, (t <= T)%nat -> (w < W)%nat -> (k < D)%nat -> y t w k = x t w k
  - g / (1 - beta) * (O k * (beta * m t w k + (average N (fun i => delta t w i k) + b t w k))).
Hypothesis descent : forall u v,
  f v <= f u + bigsum D (fun k => grad u k * (v k - u k)) + L / 2 * bigsum D (fun k => (v k - u k) ^ 2).
Hypothesis lipschitz : forall u v,
  bigsum D (fun k => P k * (grad v k - grad u k) ^ 2) <= M2 * bigsum D (fun k => (u k - v k) ^ 2).
Hypothesis below : forall u, lowest <= f u.
Hypothesis mean_gradient : forall u k, (k < D)%nat -> grad u k = average N (fun i => local i u k).
Hypothesis similar : forall u, average N (fun i => bigsum D (fun k => (Q k * local i u k) ^ 2))
  <= B2 * bigsum D (fun k => P k * grad u k ^ 2) + Z2.
Notation function_of_past t h := (forall w, (w < W)%nat -> forall v, (v < W)%nat -> past t w = past t v -> h w = h v).
Notation noise t w i k := (sampled t w i k - local i (x t w) k).
Hypothesis unbiased : forall t known i k, (t < T)%nat -> (i < N)%nat -> (k < D)%nat -> function_of_past t known ->
  E (fun w => known w * noise t w i k) = 0.
Hypothesis independent : forall t i j k, (t < T)%nat -> (i < N)%nat -> (j < N)%nat -> (k < D)%nat -> i <> j ->
  E (fun w => noise t w i k * noise t w j k) = 0.
Hypothesis noisy : forall t i, (t < T)%nat -> (i < N)%nat -> E (fun w => bigsum D (fun k => (Q k * noise t w i k) ^ 2)) <= s2.
Hypothesis local_known : forall t i k, (t < T)%nat -> (i < N)%nat -> (k < D)%nat -> function_of_past t (fun w => local i (x t w) k).
Hypothesis virtual_known : forall t k, (t < T)%nat -> (k < D)%nat -> function_of_past t (fun w => grad (y t w) k).
Hypothesis momentum_known : forall t k, (t < T)%nat -> (k < D)%nat -> function_of_past t (fun w => m t w k).
Hypothesis worker_known : forall t i k, (t < T)%nat -> (i < N)%nat -> (k < D)%nat -> function_of_past t (fun w => delta t w i k).
Hypothesis server_known : forall t k, (t < T)%nat -> (k < D)%nat -> function_of_past t (fun w => b t w k).

Notation keep := (1 - beta).
Notation a t w k := (average N (fun i => delta t w i k)).
Notation weight := (keep / (q * beta)).
Notation gain := (keep ^ 2 * 2 / e).
Notation reach := ((beta / keep + q) * (beta / keep + 2 * q / (1 + q))).
Notation spread := (1 + keep * q / beta).
Notation G t := (E (fun w => bigsum D (fun k => P k * grad (x t w) k ^ 2))).
Notation F t := (E (fun w => f (y t w))).
Notation V t := (E (fun w => state_square beta q N D (m t w) (b t w) (delta t w))).

Lemma conserved : forall t w k, (t < T)%nat -> (w < W)%nat -> (k < D)%nat ->
  m (S t) w k + a (S t) w k + b (S t) w k
  = beta * m t w k + a t w k + b t w k + keep * average N (fun i => Q k * sampled t w i k).
Proof.
  intros t w k steps inside coord. rewrite server_feedback by assumption.
  rewrite (average_ext N (fun i => delta (S t) w i k)
    (fun i => (beta * m t w k + keep * (Q k * sampled t w i k) + delta t w i k) + -1 * message t w i k))
    by (intros i worker; rewrite worker_feedback by assumption; ring).
  rewrite !average_plus, average_const, !average_scal by exact some. ring.
Qed.

Lemma server_slope : forall t w, (t <= T)%nat -> (w < W)%nat ->
  bigsum D (fun k => b t w k ^ 2) <= q ^ 2 * bigsum D (fun k => (m t w k + b t w k) ^ 2).
Proof.
  intros [|t] w steps inside.
  - rewrite (bigsum_ext D _ (fun _ => 0)) by (intros k coord; rewrite server_start by assumption; ring).
    rewrite bigsum_const, Rmult_0_r. apply Rmult_le_pos; [apply pow2_ge_0|]. apply bigsum_nonneg. intros; apply pow2_ge_0.
  - rewrite (bigsum_ext D (fun k => (m (S t) w k + b (S t) w k) ^ 2)
      (fun k => (average N (fun i => message t w i k) + b t w k) ^ 2))
      by (intros k coord; rewrite server_feedback by (assumption || lia); ring).
    apply server_contracts; [lia|exact inside].
Qed.

Lemma mean_noise : forall t w k, (k < D)%nat ->
  average N (fun i => Q k * noise t w i k) = Q k * (average N (fun i => sampled t w i k) - grad (x t w) k).
Proof.
  intros t w k coord. rewrite average_scal, mean_gradient by exact coord.
  rewrite (average_ext N (fun i => noise t w i k) (fun i => sampled t w i k + -1 * local i (x t w) k)) by (intros; ring).
  rewrite average_plus, average_scal. ring.
Qed.

Lemma mean_unbiased : forall t known k, (t < T)%nat -> (k < D)%nat -> function_of_past t known ->
  E (fun w => known w * average N (fun i => Q k * noise t w i k)) = 0.
Proof.
  intros t known k steps coord depends.
  rewrite (expect_ext W p _ (fun w => average N (fun i => Q k * (known w * noise t w i k)))).
  2:{ intros w _. rewrite <- average_scal. apply average_ext. intros; ring. }
  rewrite (expect_average W p N (fun i w => Q k * (known w * noise t w i k))).
  rewrite (average_ext N _ (fun _ => 0)); [apply average_const; exact some|].
  intros i worker. rewrite expect_scal, unbiased by assumption. ring.
Qed.

Lemma noise_of_mean : forall t, (t < T)%nat ->
  E (fun w => bigsum D (fun k => average N (fun i => Q k * noise t w i k) ^ 2)) <= s2 / INR N.
Proof.
  intros t steps. apply (variance_of_mean W D N p (fun w i k => Q k * noise t w i k)); [exact some| |].
  - intros i j k worker other coord differ.
    rewrite (expect_ext W p _ (fun w => Q k ^ 2 * (noise t w i k * noise t w j k))) by (intros; ring).
    rewrite expect_scal, independent by assumption. ring.
  - intros i worker. apply noisy; assumption.
Qed.

Lemma state_step : forall t, (t < T)%nat ->
  V (S t) <= (1 - e / 2) * V t + gain * spread * (B2 * G t + Z2) + keep ^ 2 * (s2 / INR N + keep * q / beta * s2).
Proof.
  intros t steps.
  assert (large : 0 < weight) by (apply Rdiv_lt_0_compat; [lra|apply Rmult_lt_0_compat; lra]).
  assert (good : 0 < gain).
  { apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat; [apply pow_lt|]; lra|].
    exact (proj1 (e_range beta q beta_range q_range e e_is)). }
  assert (wide : 0 < spread).
  { assert (0 < keep * q / beta) by (apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat|]; lra). lra. }
  set (drift := fun w i k => Q k * local i (x t w) k).
  set (zd := fun w k => beta * m t w k + a t w k + b t w k + keep * average N (fun i => drift w i k)).
  set (ud := fun i w k => beta * m t w k + delta t w i k + keep * drift w i k).
  (* the shared part *)
  assert (shared : E (fun w => bigsum D (fun k => (m (S t) w k + a (S t) w k + b (S t) w k) ^ 2))
    <= E (fun w => bigsum D (fun k => zd w k ^ 2)) + keep ^ 2 * (s2 / INR N)).
  { rewrite (expect_ext W p _ (fun w => bigsum D (fun k => (zd w k + keep * average N (fun i => Q k * noise t w i k)) ^ 2))).
    2:{ intros w inside. apply bigsum_ext. intros k coord. rewrite conserved by assumption. unfold zd, drift.
        rewrite (average_ext N (fun i => Q k * sampled t w i k) (fun i => Q k * local i (x t w) k + Q k * noise t w i k))
          by (intros; ring). rewrite average_plus. f_equal. ring. }
    rewrite (expect_square_split W p D zd (fun w k => keep * average N (fun i => Q k * noise t w i k))).
    - apply Rplus_le_compat_l.
      rewrite (expect_ext W p _ (fun w => keep ^ 2 * bigsum D (fun k => average N (fun i => Q k * noise t w i k) ^ 2)))
        by (intros w _; rewrite <- bigsum_scal; apply bigsum_ext; intros; ring).
      rewrite expect_scal. apply Rmult_le_compat_l; [apply pow2_ge_0|apply noise_of_mean; exact steps].
    - intros k coord.
      rewrite (expect_ext W p _ (fun w => keep * (zd w k * average N (fun i => Q k * noise t w i k)))) by (intros; ring).
      rewrite expect_scal, mean_unbiased; [ring|exact steps|exact coord|].
      intros w inside v inside_v equal. unfold zd, drift.
      rewrite (momentum_known t k steps coord w inside v inside_v equal), (server_known t k steps coord w inside v inside_v equal).
      rewrite (average_ext N (fun i => delta t w i k) (fun i => delta t v i k))
        by (intros i worker; apply (worker_known t i k steps worker coord); assumption).
      rewrite (average_ext N (fun i => Q k * local i (x t w) k) (fun i => Q k * local i (x t v) k)); [reflexivity|].
      intros i worker. f_equal. apply (local_known t i k steps worker coord); assumption. }
  (* the workers *)
  assert (each : forall i, (i < N)%nat -> E (fun w => bigsum D (fun k => delta (S t) w i k ^ 2))
    <= q ^ 2 * (E (fun w => bigsum D (fun k => ud i w k ^ 2)) + keep ^ 2 * s2)).
  { intros i worker.
    apply Rle_trans with (E (fun w => q ^ 2 * bigsum D (fun k => (ud i w k + keep * (Q k * noise t w i k)) ^ 2))).
    - apply expect_le; [exact p_pos|]. intros w inside. eapply Rle_trans; [apply worker_contracts; assumption|].
      apply Req_le. f_equal. apply bigsum_ext. intros k coord. unfold ud, drift. f_equal. ring.
    - rewrite expect_scal. apply Rmult_le_compat_l; [apply pow2_ge_0|].
      rewrite (expect_square_split W p D (ud i) (fun w k => keep * (Q k * noise t w i k))).
      + apply Rplus_le_compat_l.
        rewrite (expect_ext W p _ (fun w => keep ^ 2 * bigsum D (fun k => (Q k * noise t w i k) ^ 2)))
          by (intros w _; rewrite <- bigsum_scal; apply bigsum_ext; intros; ring).
        rewrite expect_scal. apply Rmult_le_compat_l; [apply pow2_ge_0|apply noisy; assumption].
      + intros k coord. rewrite (expect_ext W p _ (fun w => keep * Q k * (ud i w k * noise t w i k))) by (intros; ring).
        rewrite expect_scal, unbiased; [ring|exact steps|exact worker|exact coord|].
        intros w inside v inside_v equal. unfold ud, drift.
        rewrite (momentum_known t k steps coord w inside v inside_v equal), (worker_known t i k steps worker coord w inside v inside_v equal).
        do 3 f_equal. apply (local_known t i k steps worker coord); assumption. }
  assert (all := average_le N _ _ some each). rewrite average_scal, average_plus, average_const in all by exact some.
  (* drift *)
  assert (drifting : E (fun w => bigsum D (fun k => zd w k ^ 2)
      + weight * (q ^ 2 * average N (fun i => bigsum D (fun k => ud i w k ^ 2))))
    <= E (fun w => (1 - e / 2) * state_square beta q N D (m t w) (b t w) (delta t w)
      + gain * spread * (B2 * bigsum D (fun k => P k * grad (x t w) k ^ 2) + Z2))).
  { apply expect_le; [exact p_pos|]. intros w inside.
    eapply Rle_trans; [apply (drift_decrease beta q beta_range q_range e e_is N D some (m t w) (b t w) (delta t w) (drift w));
      apply server_slope; [lia|exact inside]|].
    apply Rplus_le_compat_l, Rmult_le_compat_l; [apply Rmult_le_pos; lra|]. apply similar. }
  rewrite expect_plus, (expect_scal W p weight), (expect_scal W p (q ^ 2)), expect_average in drifting.
  rewrite expect_plus, !expect_scal, expect_plus, expect_scal, (expect_const W p Z2 p_sum) in drifting.
  unfold state_square at 1. rewrite expect_plus, expect_scal.
  rewrite (expect_ext W p (fun w => bigsum D (fun k => average N (fun i => delta (S t) w i k ^ 2)))
    (fun w => average N (fun i => bigsum D (fun k => delta (S t) w i k ^ 2))))
    by (intros w _; apply (average_sum N D (fun i k => delta (S t) w i k ^ 2))).
  rewrite (expect_average W p N (fun i w => bigsum D (fun k => delta (S t) w i k ^ 2))).
  apply (Rmult_le_compat_l weight) in all; [|lra].
  replace (keep ^ 2 * (s2 / INR N + keep * q / beta * s2)) with (keep ^ 2 * (s2 / INR N) + weight * (q ^ 2 * (keep ^ 2 * s2)))
    by (field; repeat split; try lra; apply not_0_INR; lia).
  lra.
Qed.

Lemma joint_virtual_step : forall t w k, (t < T)%nat -> (w < W)%nat -> (k < D)%nat ->
  y (S t) w k = y t w k - g * (P k * average N (fun i => sampled t w i k)).
Proof.
  intros t w k steps inside coord.
  apply (virtual_step W D T P beta g beta_range x y (fun t w k => O k * m t w k) (fun t w k => O k * (a t w k + b t w k))
    (fun t w k => average N (fun i => sampled t w i k))); try assumption.
  - intros s v l before inside_v coord_l. rewrite virtual by assumption. field. lra.
  - intros s v l before inside_v coord_l. cbv beta.
    rewrite <- Rmult_plus_distr_l, <- Rplus_assoc, conserved by assumption. rewrite average_scal, split by assumption. ring.
Qed.

Lemma joint_function_step : forall t, (t < T)%nat -> F (S t) <= F t - g / 2 * G t
  + g ^ 3 / 2 * M2 * omax ^ 2 * reach * V t + L * g ^ 2 / 2 * (pmax * G t + omax ^ 2 * (s2 / INR N)).
Proof.
  intros t steps.
  assert (gradient_known : forall k, (k < D)%nat -> function_of_past t (fun w => grad (x t w) k)).
  { intros k coord w inside v inside_v equal. rewrite !mean_gradient by exact coord.
    apply average_ext. intros i worker. apply (local_known t i k steps worker coord); assumption. }
  assert (unbiased_mean : forall known k, (k < D)%nat -> function_of_past t known ->
    E (fun w => known w * (average N (fun i => sampled t w i k) - grad (x t w) k)) = 0).
  { intros known k coord depends.
    rewrite (expect_ext W p _ (fun w => average N (fun i => known w * noise t w i k))).
    2:{ intros w _. rewrite average_scal. f_equal. rewrite mean_gradient by exact coord.
        rewrite (average_ext N (fun i => noise t w i k) (fun i => sampled t w i k + -1 * local i (x t w) k)) by (intros; ring).
        rewrite average_plus, average_scal. ring. }
    rewrite (expect_average W p N (fun i w => known w * noise t w i k)).
    rewrite (average_ext N _ (fun _ => 0)); [apply average_const; exact some|].
    intros i worker. apply unbiased; assumption. }
  assert (mean_noisy : E (fun w => bigsum D (fun k => (P k * (average N (fun i => sampled t w i k) - grad (x t w) k)) ^ 2))
    <= omax ^ 2 * (s2 / INR N)).
  { rewrite (expect_ext W p _ (fun w => bigsum D (fun k => (O k * average N (fun i => Q k * noise t w i k)) ^ 2))).
    2:{ intros w _. apply bigsum_ext. intros k coord. rewrite mean_noise, split by exact coord. f_equal. ring. }
    apply (expect_weighted_squares W D p O (fun w k => average N (fun i => Q k * noise t w i k)) omax);
      [exact p_pos|exact O_range|apply noise_of_mean; exact steps]. }
  assert (next := one_step W D p p_pos P pmax L g M2 (omax ^ 2 * (s2 / INR N)) P_range g_pos L_pos (x t) (y t) (y (S t))
    (fun w => grad (x t w)) (fun w => grad (y t w)) (fun w k => average N (fun i => sampled t w i k))
    (fun w => f (y t w)) (fun w => f (y (S t) w))
    (fun w k inside coord => joint_virtual_step t w k steps inside coord)
    (fun w _ => descent (y t w) (y (S t) w)) (fun w _ => lipschitz (x t w) (y t w))
    (fun k coord => unbiased_mean (fun w => grad (x t w) k) k coord (gradient_known k coord))
    (fun k coord => unbiased_mean (fun w => grad (y t w) k) k coord (virtual_known t k steps coord)) mean_noisy).
  cbv beta in next.
  assert (apart : E (fun w => bigsum D (fun k => (x t w k - y t w k) ^ 2)) <= g ^ 2 * (omax ^ 2 * (reach * V t))).
  { rewrite <- !expect_scal. apply expect_le; [exact p_pos|]. intros w inside.
    rewrite (bigsum_ext D _ (fun k => g ^ 2 * (O k * (beta / keep * (m t w k + a t w k + b t w k) + a t w k + b t w k)) ^ 2)).
    2:{ intros k coord. rewrite (virtual t) by (assumption || lia). rewrite <- Rpow_mult_distr. f_equal. field. lra. }
    rewrite bigsum_scal. apply Rmult_le_compat_l; [apply pow2_ge_0|].
    eapply Rle_trans; [apply (weighted_squares D O
      (fun k => beta / keep * (m t w k + a t w k + b t w k) + a t w k + b t w k) omax O_range)|].
    apply Rmult_le_compat_l; [apply pow2_ge_0|].
    apply (distance_square beta q beta_range q_range N D some (m t w) (b t w) (delta t w)).
    apply server_slope; [lia|exact inside]. }
  assert (0 <= E (fun w => bigsum D (fun k => P k * grad (y t w) k ^ 2))).
  { apply expect_nonneg; [exact p_pos|]. intros w _. apply bigsum_nonneg. intros k inside.
    specialize (P_range k inside). apply Rmult_le_pos; [lra|apply pow2_ge_0]. }
  assert (0 <= g / 2 * E (fun w => bigsum D (fun k => P k * grad (y t w) k ^ 2))) by (apply Rmult_le_pos; lra).
  apply (Rmult_le_compat_l (g / 2 * M2)) in apart; [|apply Rmult_le_pos; lra].
  replace (g ^ 3 / 2 * M2 * omax ^ 2 * reach * V t) with (g / 2 * M2 * (g ^ 2 * (omax ^ 2 * (reach * V t)))) by (field; lra).
  lra.
Qed.

Notation omega := (g ^ 3 * M2 * omax ^ 2 * reach / e).
Notation left := (1 - L * g * pmax - 4 * (keep / e) ^ 2 * g ^ 2 * M2 * omax ^ 2 * reach * spread * B2).
Notation per_step := (L * g ^ 2 / 2 * (omax ^ 2 * (s2 / INR N))
  + omega * (gain * spread * Z2 + keep ^ 2 * (s2 / INR N + keep * q / beta * s2))).

Lemma state_nonneg : forall t, 0 <= V t.
Proof.
  intros t. apply expect_nonneg; [exact p_pos|]. intros w _. unfold state_square.
  apply Rplus_le_le_0_compat; [apply bigsum_nonneg; intros; apply pow2_ge_0|].
  apply Rmult_le_pos; [apply Rlt_le, Rdiv_lt_0_compat; [lra|apply Rmult_lt_0_compat; lra]|].
  apply bigsum_nonneg. intros k _. eapply Rle_trans; [|apply (square_of_mean N (fun i => delta t w i k) some)].
  apply pow2_ge_0.
Qed.

Lemma omega_nonneg : 0 <= omega.
Proof.
  assert (range := e_range beta q beta_range q_range e e_is).
  assert (0 < beta / keep) by (apply Rdiv_lt_0_compat; lra).
  assert (0 < 2 * q / (1 + q)) by (apply Rdiv_lt_0_compat; lra).
  apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat; lra].
  apply Rmult_le_pos; [apply Rmult_le_pos; [apply Rmult_le_pos; [apply pow_le; lra|exact M2_pos]|apply pow2_ge_0]|].
  apply Rmult_le_pos; lra.
Qed.

Lemma joint_step : forall t, (t < T)%nat -> F (S t) + omega * V (S t) <= F t + omega * V t - g / 2 * left * G t + per_step.
Proof.
  intros t steps. assert (fall := joint_function_step t steps). assert (more := state_step t steps).
  assert (range := e_range beta q beta_range q_range e e_is).
  apply (Rmult_le_compat_l omega) in more; [|exact omega_nonneg].
  assert (N_pos : INR N <> 0) by (apply not_0_INR; lia).
  replace (F t + omega * V t - g / 2 * left * G t + per_step) with
    ((F t - g / 2 * G t + g ^ 3 / 2 * M2 * omax ^ 2 * reach * V t + L * g ^ 2 / 2 * (pmax * G t + omax ^ 2 * (s2 / INR N)))
    + omega * ((1 - e / 2) * V t + gain * spread * (B2 * G t + Z2) + keep ^ 2 * (s2 / INR N + keep * q / beta * s2)))
    by (field; repeat split; lra).
  lra.
Qed.

Lemma joint_rate : g / 2 * left * bigsum T (fun t => G t)
  <= F 0%nat - lowest + omega * E (fun w => bigsum D (fun k => m 0%nat w k ^ 2)) + INR T * per_step.
Proof.
  assert (sums : forall n, (n <= T)%nat ->
    F n + omega * V n + g / 2 * left * bigsum n (fun t => G t) <= F 0%nat + omega * V 0%nat + INR n * per_step).
  { induction n as [|n before]; intros steps.
    { change (bigsum 0 (fun t => G t)) with 0. change (INR 0) with 0. rewrite Rmult_0_r, Rmult_0_l, Rplus_0_r. apply Rle_refl. }
    specialize (before ltac:(lia)). assert (one := joint_step n ltac:(lia)). rewrite S_INR.
    change (bigsum (S n) (fun t => G t)) with (bigsum n (fun t => G t) + G n). lra. }
  specialize (sums T (Nat.le_refl T)).
  assert (lowest <= F T).
  { rewrite <- (expect_const W p lowest p_sum). apply expect_le; [exact p_pos|]. intros; apply below. }
  assert (0 <= omega * V T) by (apply Rmult_le_pos; [exact omega_nonneg|apply state_nonneg]).
  assert (first : V 0%nat = E (fun w => bigsum D (fun k => m 0%nat w k ^ 2))).
  { apply expect_ext. intros w inside. unfold state_square.
    assert (empty : forall k, (k < D)%nat -> a 0%nat w k = 0).
    { intros k coord. rewrite (average_ext N _ (fun _ => 0)) by (intros; apply worker_start; assumption).
      apply average_const. exact some. }
    rewrite (bigsum_ext D (fun k => average N (fun i => delta 0%nat w i k ^ 2)) (fun _ => 0)).
    - rewrite bigsum_const. rewrite Rmult_0_r, Rmult_0_r, Rplus_0_r. apply bigsum_ext. intros k coord.
      rewrite empty, server_start by assumption. ring.
    - intros k coord. rewrite (average_ext N _ (fun _ => 0)); [apply average_const; exact some|].
      intros i worker. rewrite worker_start by assumption. ring. }
  rewrite first in sums. lra.
Qed.
End Algorithm.
