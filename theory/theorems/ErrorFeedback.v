(* Two-sided error feedback under momentum, in root mean squares over a finite probability space (one outcome of
   probability 1 gives the deterministic theorems). n = 1 - beta throughout. *)
From Onebit Require Export Prelude.

(* ---- averages over workers, and the weighted sum over outcomes and coordinates ---- *)

Definition avg (n : nat) (f : nat -> R) : R := bigsum n f / INR n.
Definition expected (W d : nat) (p : nat -> R) (f : nat -> nat -> R) : R :=
  bigsum W (fun o => p o * bigsum d (fun k => f o k)).

Lemma div_nonneg : forall x y, 0 <= x -> 0 < y -> 0 <= x / y.
Proof. intros. apply Rle_mult_inv_pos; assumption. Qed.

Lemma avg_ext : forall n f g, (forall i, (i < n)%nat -> f i = g i) -> avg n f = avg n g.
Proof. intros. unfold avg. rewrite (bigsum_ext n f g) by assumption. reflexivity. Qed.

Lemma avg_plus : forall n f g, avg n (fun i => f i + g i) = avg n f + avg n g.
Proof. intros. unfold avg. rewrite bigsum_plus. lra. Qed.

Lemma avg_scal : forall n c f, avg n (fun i => c * f i) = c * avg n f.
Proof. intros. unfold avg. rewrite bigsum_scal. lra. Qed.

Lemma avg_const : forall n c, (1 <= n)%nat -> avg n (fun _ => c) = c.
Proof. intros. unfold avg. rewrite bigsum_const. field. apply not_0_INR. lia. Qed.

Lemma avg_le : forall n f g, (1 <= n)%nat -> (forall i, (i < n)%nat -> f i <= g i) -> avg n f <= avg n g.
Proof.
  intros n f g some below. unfold avg. apply Rmult_le_compat_r.
  - apply Rlt_le, Rinv_0_lt_compat, lt_0_INR. lia.
  - apply bigsum_le. exact below.
Qed.

Lemma avg_square : forall n f, (1 <= n)%nat -> avg n f ^ 2 <= avg n (fun i => f i ^ 2).
Proof.
  intros n f some.
  assert (0 <= avg n (fun i => (f i + - avg n f * 1) ^ 2)) as positive.
  { rewrite <- (avg_const n 0 some). apply avg_le; [exact some|]. intros. apply pow2_ge_0. }
  rewrite (avg_ext n _ (fun i => f i ^ 2 + (-2 * avg n f * f i + avg n f ^ 2))) in positive by (intros; ring).
  rewrite !avg_plus, avg_scal, avg_const in positive by exact some. lra.
Qed.

Section Expected.
Variables (W d : nat) (p : nat -> R).
Hypothesis p_nonneg : forall o, (o < W)%nat -> 0 <= p o.
Let L := expected W d p.

Lemma expected_ext : forall f g, (forall o k, (o < W)%nat -> (k < d)%nat -> f o k = g o k) -> L f = L g.
Proof.
  intros f g same. apply bigsum_ext. intros o inside. f_equal. apply bigsum_ext. intros k below. apply same; assumption.
Qed.

Lemma expected_plus : forall f g, L (fun o k => f o k + g o k) = L f + L g.
Proof.
  intros f g. unfold L, expected. rewrite <- bigsum_plus. apply bigsum_ext. intros o _. rewrite (bigsum_plus d (fun k => f o k) (fun k => g o k)). cbv beta. ring.
Qed.

Lemma expected_scal : forall c f, L (fun o k => c * f o k) = c * L f.
Proof.
  intros c f. unfold L, expected. rewrite <- bigsum_scal. apply bigsum_ext. intros o _. rewrite (bigsum_scal d c (fun k => f o k)). cbv beta. ring.
Qed.

Lemma expected_le : forall f g, (forall o k, (o < W)%nat -> (k < d)%nat -> f o k <= g o k) -> L f <= L g.
Proof.
  intros f g below. apply bigsum_le. intros o inside. apply Rmult_le_compat_l; [apply p_nonneg; exact inside|].
  apply bigsum_le. intros k small. apply below; assumption.
Qed.

Lemma expected_square : forall f, 0 <= L (fun o k => f o k ^ 2).
Proof.
  intros f. apply bigsum_nonneg. intros o inside. apply Rmult_le_pos; [apply p_nonneg; exact inside|].
  apply bigsum_nonneg. intros. apply pow2_ge_0.
Qed.

Lemma expected_avg : forall n f, L (fun o k => avg n (fun i => f i o k)) = avg n (fun i => L (f i)).
Proof.
  intros n f. unfold L, expected, avg.
  rewrite (bigsum_ext W _ (fun o => bigsum n (fun i => p o * bigsum d (fun k => f i o k)) * / INR n)).
  - rewrite bigsum_scal_r, bigsum_swap. reflexivity.
  - intros o _. cbv beta. unfold Rdiv. rewrite bigsum_scal_r, bigsum_scal, (bigsum_swap d n). ring.
Qed.

Lemma expected_avg_square : forall n f, (1 <= n)%nat -> 0 <= L (fun o k => avg n (fun i => f i o k ^ 2)).
Proof.
  intros n f some. rewrite expected_avg. rewrite <- (avg_const n 0 some). apply avg_le; [exact some|].
  intros i _. apply expected_square.
Qed.
End Expected.

(* ---- the triangle inequality of root mean squares, from the inequality that each term obeys ---- *)

Lemma minkowski : forall S P Q A B, 0 <= A -> 0 <= B -> P <= A ^ 2 -> Q <= B ^ 2 ->
  (forall r, 0 < r -> S <= (1 + r) * P + (1 + / r) * Q) -> S <= (A + B) ^ 2.
Proof.
  intros S P Q A B A_pos B_pos small_P small_Q young.
  destruct (Rle_dec S 0) as [low|high]; [pose proof (pow2_ge_0 (A + B)); lra|].
  assert (root : sqrt S <= A + B).
  { apply le_epsilon. intros e e_pos.
    assert (S <= (A + B + e) ^ 2).
    { set (a := A + e / 2). set (b := B + e / 2). assert (0 < a) by (unfold a; lra). assert (0 < b) by (unfold b; lra).
      assert (P <= a ^ 2) by (unfold a; nra). assert (Q <= b ^ 2) by (unfold b; nra).
      replace (A + B + e) with (a + b) by (unfold a, b; lra).
      assert (ratio : 0 < b / a) by (apply Rdiv_lt_0_compat; lra).
      specialize (young (b / a) ratio).
      assert ((1 + b / a) * P <= (1 + b / a) * a ^ 2) by (apply Rmult_le_compat_l; lra).
      assert (0 < / (b / a)) by (apply Rinv_0_lt_compat; exact ratio).
      assert ((1 + / (b / a)) * Q <= (1 + / (b / a)) * b ^ 2) by (apply Rmult_le_compat_l; lra).
      replace ((1 + b / a) * a ^ 2) with (a ^ 2 + a * b) in * by (field; lra).
      replace ((1 + / (b / a)) * b ^ 2) with (b ^ 2 + a * b) in * by (field; lra). lra. }
    rewrite <- (sqrt_pow2 (A + B + e)) by lra. apply sqrt_le_1_alt. assumption. }
  rewrite <- (pow2_sqrt S) by lra. pose proof (sqrt_pos S). apply pow_incr. lra.
Qed.

Lemma young : forall r x y, 0 < r -> (x + y) ^ 2 <= (1 + r) * x ^ 2 + (1 + / r) * y ^ 2.
Proof.
  intros r x y r_pos.
  assert ((1 + r) * x ^ 2 + (1 + / r) * y ^ 2 - (x + y) ^ 2 = / r * (r * x - y) ^ 2) by (field; lra).
  assert (0 <= / r * (r * x - y) ^ 2).
  { apply Rmult_le_pos; [apply Rlt_le, Rinv_0_lt_compat; exact r_pos | apply pow2_ge_0]. }
  lra.
Qed.

(* ---- the decrease of z^2 + weight * mean delta_i^2, z = m + a + b ---- *)

Definition rate (beta q : R) : R := (1 - q) / (1 + q) * ((1 + beta) / 2).
Definition weight (beta q : R) : R := (1 - beta) / (q * beta).
Definition decay (beta q : R) : R := 1 - (1 - beta) * rate beta q.

Ltac positive := repeat (apply Rplus_lt_0_compat); repeat (apply Rmult_lt_0_compat || apply pow_lt); lra.

Lemma psd3 : forall e11 e12 e13 e22 e23 e33 m a b, 0 < e11 -> 0 < e11 * e22 - e12 * e12 ->
  0 < e11 * (e22 * e33 - e23 * e23) - e12 * (e12 * e33 - e23 * e13) + e13 * (e12 * e23 - e22 * e13) ->
  0 <= e11 * m ^ 2 + e22 * a ^ 2 + e33 * b ^ 2 + 2 * (e12 * m * a + e13 * m * b + e23 * a * b).
Proof.
  intros e11 e12 e13 e22 e23 e33 m a b first second third.
  set (two := e11 * e22 - e12 * e12) in *.
  set (three := e11 * (e22 * e33 - e23 * e23) - e12 * (e12 * e33 - e23 * e13) + e13 * (e12 * e23 - e22 * e13)) in *.
  set (form := e11 * m ^ 2 + e22 * a ^ 2 + e33 * b ^ 2 + 2 * (e12 * m * a + e13 * m * b + e23 * a * b)).
  assert (squares : e11 * two * form
    = two * (e11 * m + e12 * a + e13 * b) ^ 2 + (two * a + (e11 * e23 - e12 * e13) * b) ^ 2 + e11 * three * b ^ 2)
    by (unfold form, two, three; ring).
  assert (0 <= e11 * two * form).
  { rewrite squares. apply Rplus_le_le_0_compat; [apply Rplus_le_le_0_compat|].
    - apply Rmult_le_pos; [lra | apply pow2_ge_0].
    - apply pow2_ge_0.
    - apply Rmult_le_pos; [nra | apply pow2_ge_0]. }
  apply Rnot_lt_le. intros negative. assert (0 < e11 * two) by nra. nra.
Qed.

Lemma quadratic_decrease : forall beta q m a b, 0 < beta < 1 -> 0 < q < 1 ->
  (beta * m + a + b) ^ 2 + weight beta q * q ^ 2 * (beta * m + a) ^ 2
    + (1 - beta) / q * (q ^ 2 * (m + b) ^ 2 - b ^ 2)
  <= decay beta q ^ 2 * ((m + a + b) ^ 2 + weight beta q * a ^ 2).
Proof.
  intros beta q m a b beta_domain q_domain.
  set (x := beta / (1 - beta)). set (y := q / (1 - q)).
  assert (x_pos : 0 < x) by (apply Rdiv_lt_0_compat; lra). assert (y_pos : 0 < y) by (apply Rdiv_lt_0_compat; lra).
  replace beta with (x / (1 + x)) by (unfold x; field; lra).
  replace q with (y / (1 + y)) by (unfold y; field; lra).
  clearbody x y. clear beta q beta_domain q_domain.
  set (e11 := x * y * (2*x + 1)*(8*x^2*y^2 + 4*x^2*y + 16*x*y^2 + 10*x*y + 2*x + 8*y^2 + 5*y + 1)).
  set (e12 := - (x * y * (8*x^3*y + 4*x^3 - 8*x^2*y^2 + 8*x^2*y + 4*x^2 - 16*x*y^2 - 4*x*y - 8*y^2 - 5*y - 1))).
  set (e22 := 16*x^4*y^3 + 24*x^4*y^2 + 16*x^4*y + 4*x^4 + 72*x^3*y^3 + 96*x^3*y^2 + 48*x^3*y + 8*x^3 + 120*x^2*y^3
    + 148*x^2*y^2 + 60*x^2*y + 8*x^2 + 88*x*y^3 + 105*x*y^2 + 37*x*y + 4*x + 24*y^3 + 29*y^2 + 10*y + 1).
  set (e23 := - (x * y * (1 + y) * (2*x + 1)*(8*x^2*y + 4*x^2 + 16*x*y + 6*x + 8*y + 3))).
  set (e33 := x * (16*x^3*y^3 + 24*x^3*y^2 + 16*x^3*y + 4*x^3 + 56*x^2*y^3 + 88*x^2*y^2 + 56*x^2*y + 12*x^2 + 64*x*y^3
    + 100*x*y^2 + 60*x*y + 12*x + 24*y^3 + 37*y^2 + 21*y + 4)).
  assert (form : 0 <= e11 * m ^ 2 + e22 * a ^ 2 + e33 * b ^ 2 + 2 * (e12 * m * a + e12 * m * b + e23 * a * b)).
  { apply psd3.
    - unfold e11. ring_simplify. positive.
    - unfold e11, e12, e22. ring_simplify. positive.
    - unfold e11, e12, e22, e23, e33. ring_simplify. positive. }
  set (common := 4 * x * y * (x + 1) ^ 4 * (y + 1) * (2 * y + 1) ^ 2).
  assert (common_pos : 0 < common) by (unfold common; positive).
  apply Rminus_le. apply Rmult_le_reg_l with common; [exact common_pos|]. rewrite Rmult_0_r.
  match goal with |- ?lhs <= 0 => replace lhs with
    (- (e11 * m ^ 2 + e22 * a ^ 2 + e33 * b ^ 2 + 2 * (e12 * m * a + e12 * m * b + e23 * a * b))) end.
  - lra.
  - unfold common, e11, e12, e22, e23, e33, rate, weight, decay, rate. field. repeat split; lra.
Qed.

(* ---- one step, and all steps ---- *)

Section Recursion.
Variables (W N d : nat) (p : nat -> R) (beta q G H sigma : R).
Variables (m b w : nat -> nat -> nat -> R).       (* outcome, step, coordinate *)
Variables (delta u c h x : nat -> nat -> nat -> nat -> R).  (* outcome, step, worker, coordinate; h + x is the gradient *)
Hypothesis p_nonneg : forall o, (o < W)%nat -> 0 <= p o.
Hypothesis some : (1 <= N)%nat.
Hypothesis beta_domain : 0 < beta < 1.
Hypothesis q_domain : 0 < q < 1.
Hypothesis G_nonneg : 0 <= G.
Hypothesis H_nonneg : 0 <= H.
Let n := 1 - beta.
Let L := expected W d p.
Let mean (f : nat -> nat -> nat -> nat -> R) (t o k : nat) : R := avg N (fun i => f o t i k).

Hypothesis input : forall o t i k, (o < W)%nat -> (i < N)%nat -> (k < d)%nat ->
  u o (t + 1)%nat i k = beta * m o t k + n * (h o (t + 1)%nat i k + x o (t + 1)%nat i k) + delta o t i k.
Hypothesis feedback : forall o t i k, (o < W)%nat -> (i < N)%nat -> (k < d)%nat ->
  delta o (t + 1)%nat i k = u o (t + 1)%nat i k - c o (t + 1)%nat i k.
Hypothesis server_input : forall o t k, (o < W)%nat -> (k < d)%nat ->
  w o (t + 1)%nat k = mean c (t + 1)%nat o k + b o t k.
Hypothesis server_feedback : forall o t k, (o < W)%nat -> (k < d)%nat ->
  b o (t + 1)%nat k = w o (t + 1)%nat k - m o (t + 1)%nat k.
Hypothesis worker_contracts : forall o t i, (o < W)%nat -> (i < N)%nat ->
  bigsum d (fun k => delta o (t + 1)%nat i k ^ 2) <= q ^ 2 * bigsum d (fun k => u o (t + 1)%nat i k ^ 2).
Hypothesis server_contracts : forall o t, (o < W)%nat ->
  bigsum d (fun k => b o (t + 1)%nat k ^ 2) <= q ^ 2 * bigsum d (fun k => w o (t + 1)%nat k ^ 2).
Hypothesis delta_start : forall o i k, (o < W)%nat -> (i < N)%nat -> (k < d)%nat -> delta o O i k = 0.
Hypothesis b_start : forall o k, (o < W)%nat -> (k < d)%nat -> b o O k = 0.

Let z t o k := m o t k + mean delta t o k + b o t k.
Let D t := L (fun o k => avg N (fun i => delta o t i k ^ 2)).
Let kept t o k := beta * m o t k + mean delta t o k + b o t k.

Lemma mean_linear : forall (k1 k2 : R) f g,
  avg N (fun i => k1 * f i + k2 * g i) = k1 * avg N f + k2 * avg N g.
Proof. intros. rewrite avg_plus, !avg_scal. reflexivity. Qed.

Lemma mean_input : forall t o k, (o < W)%nat -> (k < d)%nat ->
  mean u (t + 1)%nat o k
  = beta * m o t k + n * (mean h (t + 1)%nat o k + mean x (t + 1)%nat o k) + mean delta t o k.
Proof.
  intros t o k inside below. unfold mean.
  rewrite (avg_ext N _ (fun i => beta * m o t k * 1 + ((n * h o (t + 1)%nat i k + n * x o (t + 1)%nat i k) + delta o t i k))).
  - rewrite !avg_plus, !avg_scal, avg_const by exact some. ring.
  - intros i small. rewrite input by assumption. ring.
Qed.

(* Conservation (L1): what was sent cancels. *)
Lemma conserved : forall t o k, (o < W)%nat -> (k < d)%nat -> z (t + 1)%nat o k = mean u (t + 1)%nat o k + b o t k.
Proof.
  intros t o k inside below. unfold z. rewrite server_feedback, server_input by assumption. unfold mean.
  rewrite (avg_ext N (fun i => delta o (t + 1)%nat i k) (fun i => u o (t + 1)%nat i k + -1 * c o (t + 1)%nat i k))
    by (intros; rewrite feedback by assumption; ring).
  rewrite avg_plus, avg_scal. ring.
Qed.

Lemma worker_contracts_in_mean : forall t,
  D (t + 1) <= q ^ 2 * L (fun o k => avg N (fun i => u o (t + 1)%nat i k ^ 2)).
Proof.
  intros t. unfold D, L. rewrite !expected_avg, <- avg_scal. apply avg_le; [exact some|]. intros i small.
  unfold expected. rewrite <- bigsum_scal. apply bigsum_le. intros o inside.
  replace (q ^ 2 * (p o * bigsum d (fun k => u o (t + 1)%nat i k ^ 2)))
    with (p o * (q ^ 2 * bigsum d (fun k => u o (t + 1)%nat i k ^ 2))) by ring.
  apply Rmult_le_compat_l; [apply p_nonneg; exact inside | apply worker_contracts; assumption].
Qed.

Lemma server_contracts_in_mean : forall t,
  L (fun o k => b o t k ^ 2) <= q ^ 2 * L (fun o k => (m o t k + b o t k) ^ 2).
Proof.
  intros t. unfold L. rewrite <- (expected_scal W d p (q ^ 2)). unfold expected. apply bigsum_le. intros o inside.
  apply Rmult_le_compat_l; [apply p_nonneg; exact inside|]. destruct t as [|t].
  - apply bigsum_le. intros k below. rewrite b_start by assumption.
    assert (0 <= q ^ 2 * (m o 0%nat k + 0) ^ 2) by (apply Rmult_le_pos; apply pow2_ge_0). lra.
  - rewrite bigsum_scal. replace (S t) with (t + 1)%nat by lia.
    rewrite (bigsum_ext d (fun k => (m o (t + 1)%nat k + b o (t + 1)%nat k) ^ 2) (fun k => w o (t + 1)%nat k ^ 2)).
    + apply server_contracts. exact inside.
    + intros k below. rewrite server_feedback by assumption. f_equal. ring.
Qed.

(* The quadratic form, with the spread of the delta_i about their mean, which shrinks at least as fast. *)
Lemma unforced : forall t,
  L (fun o k => kept t o k ^ 2)
    + weight beta q * q ^ 2 * L (fun o k => avg N (fun i => (beta * m o t k + delta o t i k) ^ 2))
  <= decay beta q ^ 2 * (L (fun o k => z t o k ^ 2) + weight beta q * D t).
Proof.
  intros t. pose proof (server_contracts_in_mean t) as server.
  assert (q_le : q ^ 2 <= decay beta q ^ 2).
  { apply pow_incr. split; [lra|]. unfold decay, rate.
    apply Rmult_le_reg_r with (2 * (1 + q)); [lra|].
    replace ((1 - (1 - beta) * ((1 - q) / (1 + q) * ((1 + beta) / 2))) * (2 * (1 + q)))
      with (2 * (1 + q) - (1 - beta ^ 2) * (1 - q)) by (field; lra).
    nra. }
  assert (weight_pos : 0 < weight beta q).
  { unfold weight. apply Rdiv_lt_0_compat; [lra|]. apply Rmult_lt_0_compat; lra. }
  assert (multiplier_pos : 0 < (1 - beta) / q) by (apply Rdiv_lt_0_compat; lra).
  assert (form : L (fun o k => kept t o k ^ 2 + (weight beta q * q ^ 2 * avg N (fun i => (beta * m o t k + delta o t i k) ^ 2)
        + (1 - beta) / q * (q ^ 2 * (m o t k + b o t k) ^ 2 + -1 * b o t k ^ 2)))
      <= L (fun o k => decay beta q ^ 2 * (z t o k ^ 2 + weight beta q * avg N (fun i => delta o t i k ^ 2)))).
  { apply expected_le; [exact p_nonneg|]. intros o k inside below. unfold kept, z, mean.
    set (a := avg N (fun i => delta o t i k)).
    assert (spread : a ^ 2 <= avg N (fun i => delta o t i k ^ 2)) by (apply avg_square; exact some).
    rewrite (avg_ext N (fun i => (beta * m o t k + delta o t i k) ^ 2)
      (fun i => (beta * m o t k) ^ 2 * 1 + (2 * beta * m o t k * delta o t i k + delta o t i k ^ 2))) by (intros; ring).
    rewrite !avg_plus, !avg_scal, avg_const by exact some. fold a.
    set (second := avg N (fun i => delta o t i k ^ 2)) in *.
    pose proof (quadratic_decrease beta q (m o t k) a (b o t k) beta_domain q_domain) as decrease.
    assert (0 <= weight beta q * ((decay beta q ^ 2 - q ^ 2) * (second - a ^ 2)))
      by (apply Rmult_le_pos; [lra | apply Rmult_le_pos; lra]).
    nra. }
  unfold L in form. rewrite !expected_plus, !expected_scal, !expected_plus, !expected_scal in form.
  fold L in form. fold (D t) in form.
  assert (0 <= (1 - beta) / q * (q ^ 2 * L (fun o k => (m o t k + b o t k) ^ 2) + -1 * L (fun o k => b o t k ^ 2)))
    by (apply Rmult_le_pos; lra).
  lra.
Qed.

(* Noise x is uncorrelated with everything before it; h and x together are the gradients. *)
Hypothesis signal_bounded : forall t, L (fun o k => avg N (fun i => h o (t + 1)%nat i k ^ 2)) <= G ^ 2.
Hypothesis noise_mean : forall t,
  L (fun o k => (kept t o k + n * mean h (t + 1)%nat o k) * mean x (t + 1)%nat o k) = 0.
Hypothesis noise_each : forall t,
  L (fun o k => avg N (fun i => (beta * m o t k + delta o t i k + n * h o (t + 1)%nat i k) * x o (t + 1)%nat i k)) = 0.
Hypothesis noise_mean_bounded : forall t, L (fun o k => mean x (t + 1)%nat o k ^ 2) <= sigma ^ 2 / INR N.
Hypothesis noise_each_bounded : forall t, L (fun o k => avg N (fun i => x o (t + 1)%nat i k ^ 2)) <= sigma ^ 2.

Let lyapunov t := L (fun o k => z t o k ^ 2) + weight beta q * D t.

Lemma weight_pos : 0 < weight beta q.
Proof. unfold weight. apply Rdiv_lt_0_compat; [lra|]. apply Rmult_lt_0_compat; lra. Qed.

Lemma n_pos : 0 < n.
Proof. unfold n. lra. Qed.

Lemma decay_pos : 0 <= decay beta q.
Proof.
  unfold decay, rate. apply Rmult_le_reg_r with (2 * (1 + q)); [lra|].
  replace ((1 - (1 - beta) * ((1 - q) / (1 + q) * ((1 + beta) / 2))) * (2 * (1 + q)))
    with (2 * (1 + q) - (1 - beta ^ 2) * (1 - q)) by (field; lra). nra.
Qed.

Lemma split_noise : forall t,
  lyapunov (t + 1) <= L (fun o k => (kept t o k + n * mean h (t + 1)%nat o k) ^ 2)
    + weight beta q * q ^ 2 * L (fun o k => avg N (fun i =>
        (beta * m o t k + delta o t i k + n * h o (t + 1)%nat i k) ^ 2))
    + n ^ 2 * (sigma ^ 2 / INR N + weight beta q * q ^ 2 * sigma ^ 2).
Proof.
  intros t. unfold lyapunov. pose proof (worker_contracts_in_mean t) as workers. pose proof weight_pos as positive_weight.
  assert (virtual : L (fun o k => z (t + 1)%nat o k ^ 2)
    = L (fun o k => (kept t o k + n * mean h (t + 1)%nat o k) ^ 2)
      + (2 * n * 0 + n ^ 2 * L (fun o k => mean x (t + 1)%nat o k ^ 2))).
  { rewrite <- (noise_mean t). unfold L. rewrite <- !expected_scal, <- !expected_plus. apply expected_ext.
    intros o k inside below. rewrite conserved, mean_input by assumption. unfold kept. ring. }
  assert (each : L (fun o k => avg N (fun i => u o (t + 1)%nat i k ^ 2))
    = L (fun o k => avg N (fun i => (beta * m o t k + delta o t i k + n * h o (t + 1)%nat i k) ^ 2))
      + (2 * n * 0 + n ^ 2 * L (fun o k => avg N (fun i => x o (t + 1)%nat i k ^ 2)))).
  { rewrite <- (noise_each t). unfold L. rewrite <- !expected_scal, <- !expected_plus. apply expected_ext.
    intros o k inside below. rewrite <- !avg_scal, <- !avg_plus. apply avg_ext. intros i small.
    rewrite input by assumption. ring. }
  rewrite virtual. rewrite each in workers.
  pose proof (noise_mean_bounded t). pose proof (noise_each_bounded t).
  assert (squared : 0 <= n ^ 2) by apply pow2_ge_0.
  assert (n ^ 2 * L (fun o k => mean x (t + 1)%nat o k ^ 2) <= n ^ 2 * (sigma ^ 2 / INR N))
    by (apply Rmult_le_compat_l; assumption).
  assert (n ^ 2 * L (fun o k => avg N (fun i => x o (t + 1)%nat i k ^ 2)) <= n ^ 2 * sigma ^ 2)
    by (apply Rmult_le_compat_l; assumption).
  set (signal := L (fun o k => avg N (fun i => (beta * m o t k + delta o t i k + n * h o (t + 1)%nat i k) ^ 2))) in *.
  assert (weight beta q * D (t + 1) <= weight beta q * (q ^ 2 * (signal + n ^ 2 * sigma ^ 2))).
  { apply Rmult_le_compat_l; [lra|]. eapply Rle_trans; [exact workers|]. apply Rmult_le_compat_l; [apply pow2_ge_0|]. lra. }
  lra.
Qed.

Lemma forced : forall t R, 0 <= R -> lyapunov t <= R ^ 2 ->
  lyapunov (t + 1) <= (decay beta q * R + n * sqrt (1 + weight beta q * q ^ 2) * G) ^ 2
    + n ^ 2 * (sigma ^ 2 / INR N + weight beta q * q ^ 2 * sigma ^ 2).
Proof.
  intros t R R_nonneg before. eapply Rle_trans; [apply split_noise|]. apply Rplus_le_compat_r.
  pose proof weight_pos as positive_weight. pose proof n_pos.
  assert (share_pos : 0 <= weight beta q * q ^ 2) by (apply Rmult_le_pos; [lra | apply pow2_ge_0]).
  apply minkowski with
    (P := L (fun o k => kept t o k ^ 2)
      + weight beta q * q ^ 2 * L (fun o k => avg N (fun i => (beta * m o t k + delta o t i k) ^ 2)))
    (Q := n ^ 2 * ((1 + weight beta q * q ^ 2) * L (fun o k => avg N (fun i => h o (t + 1)%nat i k ^ 2)))).
  - apply Rmult_le_pos; [apply decay_pos | exact R_nonneg].
  - apply Rmult_le_pos; [|exact G_nonneg]. apply Rmult_le_pos; [lra | apply sqrt_pos].
  - eapply Rle_trans; [apply unforced|]. rewrite Rpow_mult_distr. apply Rmult_le_compat_l; [apply pow2_ge_0 | exact before].
  - rewrite !Rpow_mult_distr, pow2_sqrt, Rmult_assoc by lra.
    apply Rmult_le_compat_l; [apply pow2_ge_0|]. apply Rmult_le_compat_l; [lra | apply signal_bounded].
  - intros r r_pos.
    assert (inverse : 0 < / r) by (apply Rinv_0_lt_compat; exact r_pos).
    set (S := L (fun o k => avg N (fun i => h o (t + 1)%nat i k ^ 2))).
    assert (average : L (fun o k => mean h (t + 1)%nat o k ^ 2) <= S).
    { apply expected_le; [exact p_nonneg|]. intros o k _ _. apply avg_square. exact some. }
    assert (virtual : L (fun o k => (kept t o k + n * mean h (t + 1)%nat o k) ^ 2)
      <= (1 + r) * L (fun o k => kept t o k ^ 2) + (1 + / r) * (n ^ 2 * L (fun o k => mean h (t + 1)%nat o k ^ 2))).
    { unfold L. rewrite <- !expected_scal, <- expected_plus. apply expected_le; [exact p_nonneg|].
      intros o k _ _. eapply Rle_trans; [apply (young r); exact r_pos|]. rewrite Rpow_mult_distr. lra. }
    assert (each : L (fun o k => avg N (fun i => (beta * m o t k + delta o t i k + n * h o (t + 1)%nat i k) ^ 2))
      <= (1 + r) * L (fun o k => avg N (fun i => (beta * m o t k + delta o t i k) ^ 2)) + (1 + / r) * (n ^ 2 * S)).
    { unfold S, L. rewrite <- !expected_scal, <- expected_plus. apply expected_le; [exact p_nonneg|].
      intros o k _ _. rewrite <- !avg_scal, <- avg_plus. apply avg_le; [exact some|].
      intros i _. eapply Rle_trans; [apply (young r); exact r_pos|]. rewrite Rpow_mult_distr. lra. }
    assert (0 <= n ^ 2) by apply pow2_ge_0.
    assert ((1 + / r) * (n ^ 2 * L (fun o k => mean h (t + 1)%nat o k ^ 2)) <= (1 + / r) * (n ^ 2 * S)).
    { apply Rmult_le_compat_l; [lra|]. apply Rmult_le_compat_l; assumption. }
    apply (Rmult_le_compat_l (weight beta q * q ^ 2)) in each; [|exact share_pos]. lra.
Qed.

Lemma virtual_bounded : forall R, 0 <= R -> lyapunov 0 <= R ^ 2 ->
  (decay beta q * R + n * sqrt (1 + weight beta q * q ^ 2) * G) ^ 2
    + n ^ 2 * (sigma ^ 2 / INR N + weight beta q * q ^ 2 * sigma ^ 2) <= R ^ 2 ->
  forall t, lyapunov t <= R ^ 2.
Proof.
  intros R R_nonneg start fixed. induction t as [|t before]; [exact start|].
  replace (S t) with (t + 1)%nat by lia. eapply Rle_trans; [apply forced; eassumption | exact fixed].
Qed.

Lemma D_start : D 0 = 0.
Proof.
  unfold D, L. rewrite (expected_ext W d p _ (fun _ _ => 0 * 0)).
  - rewrite expected_scal. ring.
  - intros o k inside below. rewrite (avg_ext N _ (fun _ => 0)); [rewrite avg_const by exact some; ring|].
    intros i small. rewrite delta_start by assumption. ring.
Qed.

Lemma lyapunov_start : lyapunov 0 = L (fun o k => m o 0%nat k ^ 2).
Proof.
  unfold lyapunov. rewrite D_start, Rmult_0_r, Rplus_0_r. apply expected_ext. intros o k inside below. unfold z, mean.
  rewrite (avg_ext N _ (fun _ => 0)) by (intros; apply delta_start; assumption).
  rewrite avg_const, b_start by assumption. ring.
Qed.

Lemma z_bounded : forall R t, lyapunov t <= R ^ 2 -> L (fun o k => z t o k ^ 2) <= R ^ 2.
Proof.
  intros R t below. unfold lyapunov in below. pose proof weight_pos.
  assert (0 <= D t) by (apply expected_avg_square; [exact p_nonneg | exact some]).
  assert (0 <= weight beta q * D t) by (apply Rmult_le_pos; lra). lra.
Qed.

(* ---- from z to the errors ---- *)

Hypothesis spread_bounded : forall t, L (fun o k => avg N (fun i =>
  (h o (t + 1)%nat i k + x o (t + 1)%nat i k - (mean h (t + 1)%nat o k + mean x (t + 1)%nat o k)) ^ 2)) <= H ^ 2.

Lemma rms_triangle : forall f g A B, 0 <= A -> 0 <= B ->
  L (fun o k => f o k ^ 2) <= A ^ 2 -> L (fun o k => g o k ^ 2) <= B ^ 2 ->
  L (fun o k => (f o k + g o k) ^ 2) <= (A + B) ^ 2.
Proof.
  intros f g A B A_nonneg B_nonneg small_f small_g. eapply minkowski; try eassumption. intros r r_pos.
  unfold L. rewrite <- !expected_scal, <- expected_plus. apply expected_le; [exact p_nonneg|].
  intros o k _ _. apply young. exact r_pos.
Qed.

Lemma server_from_workers : forall R E t, 0 <= R -> 0 <= E -> L (fun o k => z t o k ^ 2) <= R ^ 2 ->
  L (fun o k => mean delta t o k ^ 2) <= E ^ 2 -> L (fun o k => b o t k ^ 2) <= (q * (R + E)) ^ 2.
Proof.
  intros R E t R_nonneg E_nonneg small_z small_a. eapply Rle_trans; [apply server_contracts_in_mean|].
  rewrite Rpow_mult_distr. apply Rmult_le_compat_l; [apply pow2_ge_0|].
  assert (same : L (fun o k => (m o t k + b o t k) ^ 2) = L (fun o k => (z t o k + -1 * mean delta t o k) ^ 2)).
  { apply expected_ext. intros o k _ _. unfold z. ring. }
  rewrite same. apply rms_triangle; try assumption.
  eapply Rle_trans; [apply Req_le | exact small_a]. apply expected_ext. intros o k _ _. ring.
Qed.

Lemma errors_scalar : forall R E a v, 0 <= R -> 0 <= H -> 0 <= a -> 0 <= v -> E = q * (R + n * H) / (1 - q) ->
  a ^ 2 + v ^ 2 <= E ^ 2 -> q ^ 2 * ((R + q * (R + a)) ^ 2 + (v + n * H) ^ 2) <= E ^ 2.
Proof.
  intros R E a v R_nonneg _ a_nonneg v_nonneg E_is below.
  pose proof n_pos as positive_n. set (y := n * H) in *. assert (0 <= y) by (apply Rmult_le_pos; lra).
  assert (E_nonneg : 0 <= E) by (rewrite E_is; apply div_nonneg; [apply Rmult_le_pos; lra | lra]).
  assert (E_fixed : E = q * (R + y + E)) by (rewrite E_is; field; lra).
  assert (first : (R + q * (R + a)) ^ 2 <= a ^ 2 + R ^ 2 * ((1 + q) / (1 - q))).
  { apply Rmult_le_reg_r with (1 - q); [lra|].
    replace ((a ^ 2 + R ^ 2 * ((1 + q) / (1 - q))) * (1 - q)) with (a ^ 2 * (1 - q) + R ^ 2 * (1 + q)) by (field; lra).
    assert (0 <= (1 - q) * ((1 - q ^ 2) * a ^ 2 - 2 * (q * (1 + q) * R) * a) + R ^ 2 * ((1 + q) * q ^ 2)).
    { replace ((1 - q) * ((1 - q ^ 2) * a ^ 2 - 2 * (q * (1 + q) * R) * a) + R ^ 2 * ((1 + q) * q ^ 2))
        with ((1 + q) * ((1 - q) * a - q * R) ^ 2) by ring.
      apply Rmult_le_pos; [lra | apply pow2_ge_0]. }
    nra. }
  assert (v_small : v <= E) by nra.
  assert (second : a ^ 2 + (v + y) ^ 2 <= (E + y) ^ 2) by nra.
  assert (K : R ^ 2 * ((1 + q) / (1 - q)) = (R / (1 - q)) ^ 2 - (q * R / (1 - q)) ^ 2) by (field; lra).
  assert (E_split : E = q * R / (1 - q) + q * y / (1 - q)) by (rewrite E_is; field; lra).
  assert (third : R ^ 2 * ((1 + q) / (1 - q)) + (E + y) ^ 2 <= (R / (1 - q) + y / (1 - q)) ^ 2).
  { rewrite K. replace (E + y) with (q * R / (1 - q) + y / (1 - q)) by (rewrite E_split; field; lra).
    set (s := q * R / (1 - q)). set (l := R / (1 - q)). set (r := y / (1 - q)).
    assert (s <= l) by (unfold s, l, Rdiv; apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; lra | nra]).
    assert (0 <= r) by (apply div_nonneg; lra). nra. }
  replace (E ^ 2) with (q ^ 2 * (R / (1 - q) + y / (1 - q)) ^ 2) by (rewrite E_split; field; lra).
  apply Rmult_le_compat_l; [apply pow2_ge_0|]. lra.
Qed.

Lemma deviation : forall f, avg N (fun i => (f i - avg N f) ^ 2) = avg N (fun i => f i ^ 2) - avg N f ^ 2.
Proof.
  intros f. rewrite (avg_ext N _ (fun i => f i ^ 2 + (-2 * avg N f * f i + avg N f ^ 2 * 1))) by (intros; ring).
  rewrite !avg_plus, !avg_scal, avg_const by exact some. ring.
Qed.

Lemma workers_step : forall R E t, 0 <= R -> E = q * (R + n * H) / (1 - q) ->
  L (fun o k => z t o k ^ 2) <= R ^ 2 -> L (fun o k => z (t + 1)%nat o k ^ 2) <= R ^ 2 ->
  D t <= E ^ 2 -> D (t + 1) <= E ^ 2.
Proof.
  intros R E t R_nonneg E_is small_z small_z' before. eapply Rle_trans; [apply worker_contracts_in_mean|].
  pose proof n_pos as positive_n.
  set (A2 := L (fun o k => mean delta t o k ^ 2)).
  set (V2 := L (fun o k => avg N (fun i => (delta o t i k - mean delta t o k) ^ 2))).
  assert (A2_pos : 0 <= A2) by (apply expected_square; exact p_nonneg).
  assert (V2_pos : 0 <= V2) by (apply expected_avg_square; [exact p_nonneg | exact some]).
  assert (sum : D t = A2 + V2).
  { unfold D, A2, V2, L. rewrite <- expected_plus. apply expected_ext. intros o k _ _. unfold mean. rewrite deviation. ring. }
  assert (split : L (fun o k => avg N (fun i => u o (t + 1)%nat i k ^ 2))
    = L (fun o k => (z (t + 1)%nat o k + -1 * b o t k) ^ 2)
      + L (fun o k => avg N (fun i => (u o (t + 1)%nat i k - mean u (t + 1)%nat o k) ^ 2))).
  { unfold L. rewrite <- expected_plus. apply expected_ext. intros o k inside below.
    rewrite conserved by assumption. unfold mean. rewrite deviation. ring. }
  rewrite split.
  assert (centre : L (fun o k => (z (t + 1)%nat o k + -1 * b o t k) ^ 2) <= (R + q * (R + sqrt A2)) ^ 2).
  { apply rms_triangle; [exact R_nonneg | | exact small_z' |].
    - pose proof (sqrt_pos A2). apply Rmult_le_pos; lra.
    - eapply Rle_trans; [apply Req_le |].
      + apply (expected_ext W d p _ (fun o k => b o t k ^ 2)). intros. ring.
      + apply server_from_workers; [exact R_nonneg | apply sqrt_pos | exact small_z |]. rewrite pow2_sqrt by exact A2_pos.
        apply Rle_refl. }
  assert (around : L (fun o k => avg N (fun i => (u o (t + 1)%nat i k - mean u (t + 1)%nat o k) ^ 2))
    <= (sqrt V2 + n * H) ^ 2).
  { apply minkowski with (P := V2) (Q := n ^ 2 * L (fun o k => avg N (fun i =>
      (h o (t + 1)%nat i k + x o (t + 1)%nat i k - (mean h (t + 1)%nat o k + mean x (t + 1)%nat o k)) ^ 2))).
    - apply sqrt_pos.
    - apply Rmult_le_pos; lra.
    - rewrite pow2_sqrt by exact V2_pos. apply Rle_refl.
    - rewrite Rpow_mult_distr. apply Rmult_le_compat_l; [apply pow2_ge_0 | apply spread_bounded].
    - intros r r_pos. unfold V2, L. rewrite <- !expected_scal, <- expected_plus. apply expected_le; [exact p_nonneg|].
      intros o k inside below. rewrite <- !avg_scal, <- avg_plus. apply avg_le; [exact some|]. intros i small.
      rewrite input, mean_input by assumption.
      set (g := h o (t + 1)%nat i k + x o (t + 1)%nat i k - (mean h (t + 1)%nat o k + mean x (t + 1)%nat o k)).
      pose proof (young r (delta o t i k - mean delta t o k) (n * g) r_pos) as inequality.
      rewrite Rpow_mult_distr in inequality. eapply Rle_trans; [|exact inequality].
      apply Req_le. unfold g. f_equal. ring. }
  eapply Rle_trans.
  - apply Rmult_le_compat_l; [apply pow2_ge_0|]. apply Rplus_le_compat; [exact centre | exact around].
  - apply (errors_scalar R E (sqrt A2) (sqrt V2)); try assumption; try apply sqrt_pos.
    rewrite !pow2_sqrt by assumption. lra.
Qed.

Lemma workers_bounded : forall R E, 0 <= R -> E = q * (R + n * H) / (1 - q) ->
  (forall t, L (fun o k => z t o k ^ 2) <= R ^ 2) -> forall t, D t <= E ^ 2.
Proof.
  intros R E R_nonneg E_is small. induction t as [|t before].
  - rewrite D_start. apply pow2_ge_0.
  - replace (S t) with (t + 1)%nat by lia. apply (workers_step R E t R_nonneg E_is); try apply small. exact before.
Qed.

Lemma server_bounded : forall R E t, 0 <= R -> 0 <= E -> L (fun o k => z t o k ^ 2) <= R ^ 2 -> D t <= E ^ 2 ->
  L (fun o k => b o t k ^ 2) <= (q * (R + E)) ^ 2.
Proof.
  intros R E t R_nonneg E_nonneg small_z small_D. apply server_from_workers; try assumption.
  eapply Rle_trans; [|exact small_D]. apply expected_le; [exact p_nonneg|]. intros. apply avg_square. exact some.
Qed.

Lemma residual_bounded : forall R E t, 0 <= R -> 0 <= E -> L (fun o k => z t o k ^ 2) <= R ^ 2 -> D t <= E ^ 2 ->
  L (fun o k => (mean delta t o k + b o t k) ^ 2) <= (E + q * (R + E)) ^ 2.
Proof.
  intros R E t R_nonneg E_nonneg small_z small_D. apply rms_triangle; try assumption.
  - apply Rmult_le_pos; lra.
  - eapply Rle_trans; [|exact small_D]. apply expected_le; [exact p_nonneg|]. intros. apply avg_square. exact some.
  - apply server_bounded; assumption.
Qed.

(* ---- the bounds in closed form ---- *)

Definition virtual_bound : R :=
  (2 * G * (sqrt (1 + ((q * (1 - beta)) / beta))) * (1 + q)) / ((1 - q) * (1 + beta)).
(* What noise adds: its square times 1 - decay^2 is the variance that enters in a step. *)
Definition noise_bound : R :=
  sqrt (n * sigma ^ 2 * (/ INR N + q * (1 - beta) / beta) / (rate beta q * (2 - n * rate beta q))).

Lemma rate_pos : 0 < rate beta q <= 1.
Proof.
  unfold rate. split.
  - apply Rmult_lt_0_compat; [apply Rdiv_lt_0_compat; lra | lra].
  - apply Rmult_le_reg_r with (2 * (1 + q)); [lra|].
    replace ((1 - q) / (1 + q) * ((1 + beta) / 2) * (2 * (1 + q))) with ((1 - q) * (1 + beta)) by (field; lra). nra.
Qed.

Lemma root_share : sqrt (1 + weight beta q * q ^ 2) = sqrt (1 + q * (1 - beta) / beta).
Proof. f_equal. unfold weight. field. lra. Qed.

Lemma virtual_bound_is : virtual_bound * rate beta q = sqrt (1 + weight beta q * q ^ 2) * G.
Proof.
  rewrite root_share. unfold virtual_bound, rate. generalize (sqrt (1 + q * (1 - beta) / beta)). intros root. field.
  repeat split; lra.
Qed.

Lemma virtual_bound_ge : G <= virtual_bound.
Proof.
  pose proof rate_pos. pose proof weight_pos.
  assert (1 <= sqrt (1 + weight beta q * q ^ 2)).
  { rewrite <- sqrt_1 at 1. apply sqrt_le_1_alt. assert (0 <= weight beta q * q ^ 2) by (apply Rmult_le_pos; [lra | apply pow2_ge_0]). lra. }
  assert (nonneg : 0 <= virtual_bound).
  { apply Rmult_le_reg_r with (rate beta q); [lra|]. rewrite virtual_bound_is, Rmult_0_l. nra. }
  apply Rle_trans with (virtual_bound * rate beta q); [rewrite virtual_bound_is; nra | nra].
Qed.

Lemma noise_bound_square : noise_bound ^ 2 * (rate beta q * (2 - n * rate beta q))
  = n * (sigma ^ 2 / INR N + weight beta q * q ^ 2 * sigma ^ 2).
Proof.
  pose proof rate_pos. pose proof n_pos. assert (n < 1) by (unfold n; lra).
  assert (count : 0 < INR N) by (apply lt_0_INR; lia).
  assert (below : 0 < 2 - n * rate beta q) by nra.
  unfold noise_bound. rewrite pow2_sqrt.
  - unfold weight. fold n. field. repeat split; lra.
  - apply div_nonneg; [|apply Rmult_lt_0_compat; lra].
    apply Rmult_le_pos; [apply Rmult_le_pos; [lra | apply pow2_ge_0]|].
    assert (0 < / INR N) by (apply Rinv_0_lt_compat; exact count).
    assert (0 <= q * (1 - beta) / beta) by (apply div_nonneg; [apply Rmult_le_pos; lra | lra]). lra.
Qed.

Lemma noise_bound_nonneg : 0 <= noise_bound.
Proof. apply sqrt_pos. Qed.

Lemma noise_bound_ge : (1 - beta) / (1 + beta) * sigma ^ 2 / INR N <= noise_bound ^ 2.
Proof.
  pose proof rate_pos. pose proof n_pos. pose proof weight_pos. assert (n < 1) by (unfold n; lra).
  assert (count : 0 < INR N) by (apply lt_0_INR; lia).
  assert (room : rate beta q * (2 - n * rate beta q) <= 1 + beta).
  { assert (0 <= (1 - rate beta q) * (2 - n * (1 + rate beta q))) by (apply Rmult_le_pos; nra).
    assert (beta = 1 - n) by (unfold n; ring). nra. }
  assert (0 < 2 - n * rate beta q) by nra.
  assert (denominator : 0 < rate beta q * (2 - n * rate beta q)) by (apply Rmult_lt_0_compat; lra).
  apply Rmult_le_reg_r with (1 + beta); [lra|].
  replace ((1 - beta) / (1 + beta) * sigma ^ 2 / INR N * (1 + beta)) with (n * (sigma ^ 2 / INR N))
    by (unfold n; field; lra).
  apply Rle_trans with (noise_bound ^ 2 * (rate beta q * (2 - n * rate beta q))).
  - rewrite noise_bound_square. apply Rmult_le_compat_l; [lra|].
    assert (0 <= weight beta q * q ^ 2 * sigma ^ 2)
      by (apply Rmult_le_pos; [apply Rmult_le_pos; [lra | apply pow2_ge_0] | apply pow2_ge_0]). lra.
  - apply Rmult_le_compat_l; [apply pow2_ge_0 | exact room].
Qed.

Hypothesis momentum_start : L (fun o k => m o 0%nat k ^ 2) <= G ^ 2 + (1 - beta) / (1 + beta) * sigma ^ 2 / INR N.

Lemma bound_nonneg : 0 <= virtual_bound + noise_bound.
Proof. pose proof virtual_bound_ge. pose proof noise_bound_nonneg. lra. Qed.

Theorem virtual_momentum : forall t, L (fun o k => z t o k ^ 2) <= (virtual_bound + noise_bound) ^ 2.
Proof.
  intros t. apply z_bounded. revert t. pose proof virtual_bound_ge. pose proof noise_bound_nonneg.
  pose proof noise_bound_square as fixed. pose proof n_pos. pose proof rate_pos.
  apply virtual_bounded; [lra | |].
  - rewrite lyapunov_start. eapply Rle_trans; [exact momentum_start|]. pose proof noise_bound_ge.
    assert (G ^ 2 <= virtual_bound ^ 2) by (apply pow_incr; lra). nra.
  - replace (n * sqrt (1 + weight beta q * q ^ 2) * G) with (n * (virtual_bound * rate beta q))
      by (rewrite virtual_bound_is; ring).
    replace (n ^ 2 * (sigma ^ 2 / INR N + weight beta q * q ^ 2 * sigma ^ 2))
      with (n * (noise_bound ^ 2 * (rate beta q * (2 - n * rate beta q)))) by (rewrite fixed; ring).
    unfold decay. fold n. set (Z := virtual_bound) in *. set (B := noise_bound) in *. set (s := rate beta q) in *.
    assert (0 <= 2 * n * s * (Z * B)) by (apply Rmult_le_pos; apply Rmult_le_pos; nra).
    replace (((1 - n * s) * (Z + B) + n * (Z * s)) ^ 2 + n * (B ^ 2 * (s * (2 - n * s))))
      with ((Z + B) ^ 2 - 2 * n * s * (Z * B)) by ring. lra.
Qed.

Definition worker_bound : R := q * (n * H + (virtual_bound + noise_bound)) / (1 - q).

Lemma worker_bound_nonneg : 0 <= worker_bound.
Proof.
  pose proof bound_nonneg. pose proof n_pos. assert (0 <= n * H) by (apply Rmult_le_pos; lra).
  apply div_nonneg; [apply Rmult_le_pos; lra | lra].
Qed.

Theorem worker_errors : forall t, D t <= worker_bound ^ 2.
Proof.
  apply (workers_bounded (virtual_bound + noise_bound)).
  - apply bound_nonneg.
  - unfold worker_bound. f_equal. ring.
  - apply virtual_momentum.
Qed.

Theorem server_errors : forall t,
  L (fun o k => b o t k ^ 2) <= (q * (virtual_bound + noise_bound + worker_bound)) ^ 2.
Proof.
  intros t. apply server_bounded; [apply bound_nonneg | apply worker_bound_nonneg | apply virtual_momentum | apply worker_errors].
Qed.

Theorem residual_errors : forall t,
  L (fun o k => (mean delta t o k + b o t k) ^ 2)
  <= (worker_bound + q * (virtual_bound + noise_bound + worker_bound)) ^ 2.
Proof.
  intros t. apply residual_bounded; [apply bound_nonneg | apply worker_bound_nonneg | apply virtual_momentum | apply worker_errors].
Qed.
End Recursion.

(* ---- noise that is uncorrelated with the state before it and across workers ---- *)

Lemma bigsum_single : forall n f i, (i < n)%nat -> (forall j, (j < n)%nat -> j <> i -> f j = 0) -> bigsum n f = f i.
Proof.
  induction n; intros f i inside zero; [lia|]. cbn [bigsum]. destruct (Nat.eq_dec i n) as [->|other].
  - rewrite (bigsum_ext n f (fun _ => 0)) by (intros; apply zero; lia). rewrite bigsum_const. ring.
  - rewrite (IHn f i), (zero n) by (lia || (intros; apply zero; lia)). ring.
Qed.

Section Noise.
Variables (W N d : nat) (p : nat -> R) (beta sigma : R).
Variables (m b : nat -> nat -> R) (delta h x : nat -> nat -> nat -> R).  (* outcome, worker, coordinate *)
Hypothesis some : (1 <= N)%nat.
Let L := expected W d p.
Let apart (f g : nat -> nat -> R) : Prop := forall k, (k < d)%nat -> bigsum W (fun o => p o * (f o k * g o k)) = 0.
Hypothesis with_m : forall i, (i < N)%nat -> apart m (fun o => x o i).
Hypothesis with_delta : forall i j, (i < N)%nat -> (j < N)%nat -> apart (fun o => delta o j) (fun o => x o i).
Hypothesis with_b : forall i, (i < N)%nat -> apart b (fun o => x o i).
Hypothesis with_h : forall i j, (i < N)%nat -> (j < N)%nat -> apart (fun o => h o j) (fun o => x o i).
Hypothesis across : forall i j, (i < N)%nat -> (j < N)%nat -> i <> j -> apart (fun o => x o i) (fun o => x o j).
Hypothesis variance : forall i, (i < N)%nat -> L (fun o k => x o i k ^ 2) <= sigma ^ 2.

Lemma uncorrelated : forall f g, apart f g -> L (fun o k => f o k * g o k) = 0.
Proof.
  intros f g zero. unfold L, expected.
  rewrite (bigsum_ext W _ (fun o => bigsum d (fun k => p o * (f o k * g o k)))) by (intros; rewrite bigsum_scal; reflexivity).
  rewrite bigsum_swap, (bigsum_ext d _ (fun _ => 0)) by (intros; apply zero; assumption). rewrite bigsum_const. ring.
Qed.

Lemma avg_zero : forall f, (forall i, (i < N)%nat -> f i = 0) -> avg N f = 0.
Proof. intros f zero. rewrite (avg_ext N f (fun _ => 0)) by exact zero. apply avg_const. exact some. Qed.

Lemma uncorrelated_mean : forall (f : nat -> nat -> nat -> R) g,
  (forall j, (j < N)%nat -> apart (fun o => f o j) g) -> L (fun o k => avg N (fun j => f o j k) * g o k) = 0.
Proof.
  intros f g zero. unfold L.
  rewrite (expected_ext W d p _ (fun o k => avg N (fun j => f o j k * g o k))).
  - rewrite (expected_avg W d p N (fun j o k => f o j k * g o k)). apply avg_zero. intros j small.
    apply (uncorrelated (fun o => f o j) g). apply zero. exact small.
  - intros o k _ _. rewrite Rmult_comm, <- avg_scal. apply avg_ext. intros. ring.
Qed.

Lemma noise_each_zero :
  L (fun o k => avg N (fun i => (beta * m o k + delta o i k + (1 - beta) * h o i k) * x o i k)) = 0.
Proof.
  unfold L. rewrite (expected_avg W d p N (fun i o k => (beta * m o k + delta o i k + (1 - beta) * h o i k) * x o i k)).
  apply avg_zero. intros i small.
  rewrite (expected_ext W d p _ (fun o k => beta * (m o k * x o i k)
    + (delta o i k * x o i k + (1 - beta) * (h o i k * x o i k)))) by (intros; ring).
  rewrite !expected_plus, !expected_scal. fold L.
  rewrite (uncorrelated m (fun o => x o i) (with_m i small)),
    (uncorrelated (fun o => delta o i) (fun o => x o i) (with_delta i i small small)),
    (uncorrelated (fun o => h o i) (fun o => x o i) (with_h i i small small)). ring.
Qed.

Lemma noise_mean_zero : L (fun o k => (beta * m o k + avg N (fun i => delta o i k) + b o k
  + (1 - beta) * avg N (fun i => h o i k)) * avg N (fun i => x o i k)) = 0.
Proof.
  unfold L. rewrite (expected_ext W d p _ (fun o k => avg N (fun i => (beta * m o k + avg N (fun i => delta o i k) + b o k
    + (1 - beta) * avg N (fun i => h o i k)) * x o i k))) by (intros; rewrite avg_scal; reflexivity).
  rewrite (expected_avg W d p N (fun i o k => (beta * m o k + avg N (fun i => delta o i k) + b o k
    + (1 - beta) * avg N (fun i => h o i k)) * x o i k)).
  apply avg_zero. intros i small.
  rewrite (expected_ext W d p _ (fun o k => beta * (m o k * x o i k) + (avg N (fun i => delta o i k) * x o i k
    + (b o k * x o i k + (1 - beta) * (avg N (fun i => h o i k) * x o i k))))) by (intros; ring).
  rewrite !expected_plus, !expected_scal. fold L.
  rewrite (uncorrelated m (fun o => x o i) (with_m i small)), (uncorrelated b (fun o => x o i) (with_b i small)),
    (uncorrelated_mean delta (fun o => x o i)), (uncorrelated_mean h (fun o => x o i)); [ring | |];
    intros j other; [apply with_h | apply with_delta]; assumption.
Qed.

Lemma noise_each_small : L (fun o k => avg N (fun i => x o i k ^ 2)) <= sigma ^ 2.
Proof.
  unfold L. rewrite (expected_avg W d p N (fun i o k => x o i k ^ 2)). rewrite <- (avg_const N (sigma ^ 2) some).
  apply avg_le; [exact some | exact variance].
Qed.

Lemma noise_mean_small : L (fun o k => avg N (fun i => x o i k) ^ 2) <= sigma ^ 2 / INR N.
Proof.
  assert (workers : 0 < / INR N) by (apply Rinv_0_lt_compat, lt_0_INR; lia).
  unfold L. rewrite (expected_ext W d p _ (fun o k => avg N (fun i => avg N (fun j => x o j k * x o i k)))).
  - rewrite (expected_avg W d p N (fun i o k => avg N (fun j => x o j k * x o i k))).
    rewrite <- (avg_const N (sigma ^ 2 / INR N) some). apply avg_le; [exact some|]. intros i small.
    rewrite (expected_avg W d p N (fun j o k => x o j k * x o i k)). unfold avg.
    rewrite (bigsum_single N _ i small).
    + apply Rmult_le_compat_r; [lra|]. eapply Rle_trans; [apply Req_le | apply (variance i small)].
      apply expected_ext. intros. ring.
    + intros j other_small other. apply (uncorrelated (fun o => x o j) (fun o => x o i)). apply across; assumption.
  - intros o k _ _. rewrite <- Rsqr_pow2. unfold Rsqr. rewrite <- avg_scal. apply avg_ext. intros i _.
    rewrite Rmult_comm, <- avg_scal. apply avg_ext. intros. ring.
Qed.
End Noise.

(* ---- one outcome, no noise ---- *)

Section Deterministic.
Variables (N d : nat) (beta q G H : R).
Variables (g : nat -> nat -> nat -> R) (m : nat -> nat -> R) (delta : nat -> nat -> nat -> R) (b : nat -> nat -> R).
Variables (u : nat -> nat -> nat -> R) (w : nat -> nat -> R) (c : nat -> nat -> nat -> R).
Hypothesis some : (1 <= N)%nat.
Hypothesis beta_domain : 0 < beta < 1.
Hypothesis q_domain : 0 < q < 1.
Hypothesis G_nonneg : 0 <= G.
Hypothesis H_nonneg : 0 <= H.
Hypothesis input : forall t i, (i < N)%nat -> forall k, (k < d)%nat ->
  u (t + 1)%nat i k = beta * m t k + (1 - beta) * g (t + 1)%nat i k + delta t i k.
Hypothesis feedback : forall t i, (i < N)%nat -> forall k, (k < d)%nat ->
  delta (t + 1)%nat i k = u (t + 1)%nat i k - c (t + 1)%nat i k.
Hypothesis server_input : forall t k, (k < d)%nat -> w (t + 1)%nat k = avg N (fun i => c (t + 1)%nat i k) + b t k.
Hypothesis server_feedback : forall t k, (k < d)%nat -> b (t + 1)%nat k = w (t + 1)%nat k - m (t + 1)%nat k.
Hypothesis worker_contracts : forall t i, (i < N)%nat ->
  bigsum d (fun k => delta (t + 1)%nat i k ^ 2) <= q ^ 2 * bigsum d (fun k => u (t + 1)%nat i k ^ 2).
Hypothesis server_contracts : forall t,
  bigsum d (fun k => b (t + 1)%nat k ^ 2) <= q ^ 2 * bigsum d (fun k => w (t + 1)%nat k ^ 2).
Hypothesis gradients : forall t, avg N (fun i => bigsum d (fun k => g (t + 1)%nat i k ^ 2)) <= G ^ 2.
Hypothesis delta_start : forall i, (i < N)%nat -> forall k, (k < d)%nat -> delta O i k = 0.
Hypothesis b_start : forall k, (k < d)%nat -> b O k = 0.
Hypothesis m_start : bigsum d (fun k => m O k ^ 2) <= G ^ 2.

Let one (o : nat) : R := 1.
Let over (A : Type) (f : A) (o : nat) : A := f.
Let none (o t i k : nat) : R := 0.

Lemma one_outcome : forall f, expected 1 d one f = bigsum d (fun k => f O k).
Proof. intros. unfold expected, one. cbn [bigsum]. set (s := bigsum d (fun k => f 0%nat k)). lra. Qed.

Lemma swap_avg : forall f, bigsum d (fun k => avg N (fun i => f i k)) = avg N (fun i => bigsum d (fun k => f i k)).
Proof. intros. unfold avg, Rdiv. rewrite bigsum_scal_r, bigsum_swap. reflexivity. Qed.

Lemma no_noise : noise_bound N beta q 0 = 0.
Proof.
  unfold noise_bound. transitivity (sqrt 0); [f_equal; unfold Rdiv; ring | apply sqrt_0].
Qed.

Lemma zero_expected : forall f, (forall k, f O k = 0) -> expected 1 d one f = 0.
Proof.
  intros f zero. rewrite one_outcome. rewrite (bigsum_ext d _ (fun _ => 0)) by (intros; apply zero).
  rewrite bigsum_const. ring.
Qed.

Lemma as_noisy : forall P : Prop,
  ((forall o, (o < 1)%nat -> 0 <= one o) ->
   (forall o t i k, (o < 1)%nat -> (i < N)%nat -> (k < d)%nat ->
     u (t + 1)%nat i k = beta * m t k + (1 - beta) * (g (t + 1)%nat i k + none o (t + 1)%nat i k) + delta t i k) ->
   (forall t, expected 1 d one (fun _ k => avg N (fun i => g (t + 1)%nat i k ^ 2)) <= G ^ 2) ->
   (forall t, expected 1 d one (fun o k => (beta * m t k + avg N (fun i => delta t i k) + b t k
     + (1 - beta) * avg N (fun i => g (t + 1)%nat i k)) * avg N (fun i => none o (t + 1)%nat i k)) = 0) ->
   (forall t, expected 1 d one (fun o k => avg N (fun i =>
     (beta * m t k + delta t i k + (1 - beta) * g (t + 1)%nat i k) * none o (t + 1)%nat i k)) = 0) ->
   (forall t, expected 1 d one (fun o k => avg N (fun i => none o (t + 1)%nat i k) ^ 2) <= 0 ^ 2 / INR N) ->
   (forall t, expected 1 d one (fun o k => avg N (fun i => none o (t + 1)%nat i k ^ 2)) <= 0 ^ 2) ->
   (expected 1 d one (fun _ k => m 0%nat k ^ 2) <= G ^ 2 + (1 - beta) / (1 + beta) * 0 ^ 2 / INR N) -> P) -> P.
Proof.
  intros P goal. unfold none in *. pose proof (avg_const N 0 some) as zero. apply goal; intros.
  - unfold one. lra.
  - rewrite input by assumption. ring.
  - rewrite one_outcome, swap_avg. apply gradients.
  - apply zero_expected. intros. rewrite zero. ring.
  - apply zero_expected. intros. rewrite (avg_ext N _ (fun _ => 0)) by (intros; ring). exact zero.
  - rewrite zero_expected; [unfold Rdiv; lra | intros; rewrite zero; ring].
  - rewrite zero_expected; [lra | intros; rewrite (avg_ext N _ (fun _ => 0)) by (intros; ring); exact zero].
  - rewrite one_outcome. unfold Rdiv. rewrite (pow_i 2), Rmult_0_r, Rmult_0_l, Rplus_0_r by lia. exact m_start.
Qed.

Theorem virtual_momentum_once : forall t,
  bigsum d (fun k => (m t k + avg N (fun i => delta t i k) + b t k) ^ 2) <= virtual_bound beta q G ^ 2.
Proof.
  intros t. apply as_noisy. intros unit input' signal mean_zero each_zero mean_small each_small start.
  rewrite <- (Rplus_0_r (virtual_bound beta q G)), <- no_noise.
  rewrite <- (one_outcome (fun o k => (m t k + avg N (fun i => delta t i k) + b t k) ^ 2)).
  apply (virtual_momentum 1 N d one beta q G 0 (over _ m) (over _ b) (over _ w) (over _ delta) (over _ u)
      (over _ c) (over _ g) none); unfold over; auto.
Qed.

Hypothesis spread : forall t,
  avg N (fun i => bigsum d (fun k => (g (t + 1)%nat i k - avg N (fun j => g (t + 1)%nat j k)) ^ 2)) <= H ^ 2.

Definition worker_bound_once : R := q * ((1 - beta) * H + virtual_bound beta q G) / (1 - q).

Lemma noiseless : worker_bound N beta q G H 0 = worker_bound_once.
Proof. unfold worker_bound, worker_bound_once. rewrite no_noise, Rplus_0_r. reflexivity. Qed.

Lemma spread_in_mean : forall t, expected 1 d one (fun o k => avg N (fun i =>
  (g (t + 1)%nat i k + none o (t + 1)%nat i k
   - (avg N (fun j => g (t + 1)%nat j k) + avg N (fun j => none o (t + 1)%nat j k))) ^ 2)) <= H ^ 2.
Proof.
  intros t. rewrite one_outcome, swap_avg. eapply Rle_trans; [apply Req_le | apply (spread t)].
  apply avg_ext. intros i _. apply bigsum_ext. intros k _. unfold none. rewrite (avg_const N 0 some). ring.
Qed.

Lemma worker_bound_once_nonneg : 0 <= worker_bound_once.
Proof. rewrite <- noiseless. apply worker_bound_nonneg; assumption. Qed.

Theorem worker_errors_once : forall t,
  avg N (fun i => bigsum d (fun k => delta t i k ^ 2)) <= worker_bound_once ^ 2.
Proof.
  intros t. apply as_noisy. intros unit input' signal mean_zero each_zero mean_small each_small start.
  rewrite <- noiseless, <- swap_avg, <- (one_outcome (fun o k => avg N (fun i => delta t i k ^ 2))).
  apply (worker_errors 1 N d one beta q G H 0 (over _ m) (over _ b) (over _ w) (over _ delta) (over _ u)
      (over _ c) (over _ g) none); unfold over; auto. apply spread_in_mean.
Qed.

Theorem server_error_once : forall t,
  bigsum d (fun k => b t k ^ 2) <= (q * (virtual_bound beta q G + worker_bound_once)) ^ 2.
Proof.
  intros t. apply as_noisy. intros unit input' signal mean_zero each_zero mean_small each_small start.
  rewrite <- (Rplus_0_r (virtual_bound beta q G)), <- no_noise, <- noiseless, <- (one_outcome (fun o k => b t k ^ 2)).
  apply (server_errors 1 N d one beta q G H 0 (over _ m) (over _ b) (over _ w) (over _ delta) (over _ u)
      (over _ c) (over _ g) none); unfold over; auto. apply spread_in_mean.
Qed.

Theorem total_error_once : forall t,
  bigsum d (fun k => (avg N (fun i => delta t i k) + b t k) ^ 2)
  <= (worker_bound_once + q * (virtual_bound beta q G + worker_bound_once)) ^ 2.
Proof.
  intros t. apply as_noisy. intros unit input' signal mean_zero each_zero mean_small each_small start.
  rewrite <- (Rplus_0_r (virtual_bound beta q G)), <- no_noise, <- noiseless,
    <- (one_outcome (fun o k => (avg N (fun i => delta t i k) + b t k) ^ 2)).
  apply (residual_errors 1 N d one beta q G H 0 (over _ m) (over _ b) (over _ w) (over _ delta) (over _ u)
      (over _ c) (over _ g) none); unfold over; auto. apply spread_in_mean.
Qed.
End Deterministic.

(* From squares to norms. *)
Lemma root_below : forall s bound, 0 <= bound -> s <= bound ^ 2 -> sqrt s <= bound.
Proof. intros s bound nonneg below. rewrite <- (sqrt_pow2 bound nonneg). apply sqrt_le_1_alt. exact below. Qed.
