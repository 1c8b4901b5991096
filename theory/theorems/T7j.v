(* The energy of the residual: a step takes away the scale times the mean magnitude, and adds the gradients. *)
From Onebit Require Import Prelude.

Section Energy.
Variables (live outcomes : nat) (weight : nat -> R) (b : R) (scale : nat -> R) (g residual next : nat -> nat -> R).
Hypothesis probabilities : forall w, (w < outcomes)%nat -> 0 <= weight w.
Hypothesis update : forall w k, (w < outcomes)%nat -> (k < live)%nat ->
  next w k = residual w k + b * g w k - b * (sgn (residual w k + b * g w k) * scale w).

Let E (f : nat -> R) := bigsum outcomes (fun w => f w * weight w).
Let size w k := Rabs (residual w k + b * g w k).

Lemma step_energy : forall k, (k < live)%nat -> E (fun w => next w k ^ 2)
  = E (fun w => residual w k ^ 2) + 2 * b * E (fun w => residual w k * g w k) + b ^ 2 * E (fun w => g w k ^ 2)
    - 2 * b * E (fun w => scale w * size w k) + b ^ 2 * E (fun w => scale w ^ 2).
Proof.
  intros k below. unfold E. rewrite <- !bigsum_scal, <- !bigsum_plus, <- bigsum_minus, <- bigsum_plus.
  apply bigsum_ext. intros w known. rewrite update by assumption. unfold size. rewrite <- sgn_times.
  set (u := residual w k + b * g w k). assert (one := sgn_square u).
  transitivity ((u ^ 2 - 2 * b * (scale w * (u * sgn u)) + b ^ 2 * scale w ^ 2 * (sgn u * sgn u)) * weight w); [ring|].
  rewrite one. unfold u. ring.
Qed.

Lemma residual_size : 0 < b -> forall k, E (fun w => Rabs (residual w k))
  <= E (fun w => size w k) + b * E (fun w => Rabs (g w k)).
Proof.
  intros positive k. unfold E. rewrite <- bigsum_scal, <- bigsum_plus. apply bigsum_le. intros w known.
  assert (W := probabilities w known). unfold size.
  assert (triangle := Rabs_triang (residual w k + b * g w k) (- (b * g w k))).
  replace (residual w k + b * g w k + - (b * g w k)) with (residual w k) in triangle by ring.
  rewrite Rabs_Ropp, Rabs_mult, (Rabs_right b) in triangle by lra. nra.
Qed.

Lemma first_moment : forall strength, 0 < strength -> E (fun _ => 1) = 1 -> forall k,
  2 * strength * E (fun w => Rabs (g w k)) <= E (fun w => g w k ^ 2) + strength ^ 2.
Proof.
  intros strength positive one k. rewrite <- (Rmult_1_r (strength ^ 2)). rewrite <- one. unfold E.
  rewrite <- !bigsum_scal, <- bigsum_plus. apply bigsum_le. intros w known. assert (W := probabilities w known).
  rewrite <- (pow2_abs (g w k)). assert (square := pow2_ge_0 (Rabs (g w k) - strength)). nra.
Qed.
End Energy.

Theorem T7j :
  forall (live : nat) (n_steps : nat) (momentum : nat -> nat -> nat -> R) (total_error : nat -> nat -> nat -> R) (corrected : nat -> nat -> nat -> R) (scale : nat -> nat -> R) (beta1 : R) (n_outcomes : nat) (weight : nat -> R) (signal : nat -> nat -> nat -> R) (flatness : R) (drift : R) (strength : R) (start : R),
  forall (live_domain : (1 <= live)%nat),
  forall (n_steps_domain : (1 <= n_steps)%nat),
  forall (beta1_domain : 0 < beta1 /\ beta1 < 1),
  forall (n_outcomes_domain : (1 <= n_outcomes)%nat),
  forall (flatness_domain : 0 < flatness /\ flatness <= 1),
  forall (drift_domain : 0 <= drift),
  forall (strength_domain : 0 < strength),
  forall (start_domain : 0 <= start),
  forall (probabilities : forall outcome : nat, (outcome < n_outcomes)%nat -> 0 <= (weight outcome)),
  forall (sum_one : (bigsum n_outcomes (fun outcome => (weight outcome))) = 1),
  forall (compressed : forall s : nat, forall outcome : nat, (outcome < n_outcomes)%nat -> forall k : nat, (k < live)%nat -> (corrected s outcome k) = ((beta1 * (momentum s outcome k)) + ((1 - beta1) * (signal s outcome k)) + (total_error s outcome k))),
  forall (one_bit : forall s : nat, forall outcome : nat, (outcome < n_outcomes)%nat -> forall k : nat, (k < live)%nat -> (momentum (s + 1)%nat outcome k) = ((sgn (corrected s outcome k)) * (scale s outcome))),
  forall (feedback : forall s : nat, forall outcome : nat, (outcome < n_outcomes)%nat -> forall k : nat, (k < live)%nat -> (total_error (s + 1)%nat outcome k) = ((corrected s outcome k) - (momentum (s + 1)%nat outcome k))),
  forall (flat : forall s : nat, forall outcome : nat, (outcome < n_outcomes)%nat -> (flatness * (scale s outcome)) <= ((bigsum live (fun k => (Rabs (corrected s outcome k)))) / (INR live))),
  forall (rms_at_most : forall s : nat, forall outcome : nat, (outcome < n_outcomes)%nat -> ((bigsum live (fun k => (Rabs (corrected s outcome k)))) / (INR live)) <= (scale s outcome)),
  forall (flat_enough : 0 < (beta1 + (2 * flatness) - 1)),
  forall (small_drift : forall s : nat, forall k : nat, (k < live)%nat -> (bigsum n_outcomes (fun outcome => (((beta1 * (momentum s outcome k)) + (total_error s outcome k)) * (signal s outcome k) * (weight outcome)))) <= (drift * (bigsum n_outcomes (fun outcome => ((Rabs ((beta1 * (momentum s outcome k)) + (total_error s outcome k))) * (weight outcome)))))),
  forall (bounded_strength : forall s : nat, ((bigsum live (fun k => (bigsum n_outcomes (fun outcome => (((signal s outcome k) ^ 2) * (weight outcome)))))) / (INR live)) <= (strength ^ 2)),
  forall (small_start : ((bigsum live (fun k => (bigsum n_outcomes (fun outcome => ((((beta1 * (momentum 0%nat outcome k)) + (total_error 0%nat outcome k)) ^ 2) * (weight outcome)))))) / (INR live)) <= (start ^ 2)),
  ((sqrt (bigsum n_steps (fun s => (bigsum n_outcomes (fun outcome => (((scale s outcome) ^ 2) * (weight outcome))))))) / (sqrt (INR n_steps))) <= ((drift + (sqrt ((drift ^ 2) + ((((1 - beta1) * ((strength ^ 2) + (2 * drift * strength))) + ((start ^ 2) / ((INR n_steps) * (1 - beta1)))) * (beta1 + (2 * flatness) - 1))))) / (beta1 + (2 * flatness) - 1)).
Proof.
  intros live n_steps momentum total_error corrected scale beta1 n_outcomes weight signal flatness drift strength start
    live_domain n_steps_domain beta1_domain n_outcomes_domain flatness_domain drift_domain strength_domain start_domain
    probabilities sum_one compressed one_bit feedback flat rms_at_most flat_enough small_drift bounded_strength
    small_start.
  set (b := 1 - beta1). set (c := beta1 + 2 * flatness - 1) in *. assert (B : 0 < b) by (unfold b; lra).
  assert (D : 0 < INR live) by (apply lt_0_INR; lia). assert (T : 0 < INR n_steps) by (apply lt_0_INR; lia).
  set (residual := fun s w k => beta1 * momentum s w k + total_error s w k).
  set (E := fun f : nat -> R => bigsum n_outcomes (fun w => f w * weight w)).
  set (size := fun s w k => Rabs (residual s w k + b * signal s w k)).
  set (energy := fun s => bigsum live (fun k => E (fun w => residual s w k ^ 2))).
  set (X := fun s => E (fun w => scale s w ^ 2)). set (Y := fun s => E (fun w => scale s w)).
  assert (corrected_is : forall s w k, (w < n_outcomes)%nat -> (k < live)%nat ->
    corrected s w k = residual s w k + b * signal s w k).
  { intros s w k known below. rewrite compressed by assumption. unfold residual, b. ring. }
  assert (update : forall s w k, (w < n_outcomes)%nat -> (k < live)%nat -> residual (s + 1)%nat w k
    = residual s w k + b * signal s w k - b * (sgn (residual s w k + b * signal s w k) * scale s w)).
  { intros s w k known below. unfold residual at 1. rewrite feedback, one_bit, corrected_is by assumption.
    unfold b. ring. }
  assert (sizes : forall s w, (w < n_outcomes)%nat -> flatness * scale s w * INR live <= bigsum live (fun k => size s w k)
    <= scale s w * INR live).
  { intros s w known. assert (low := flat s w known). assert (high := rms_at_most s w known).
    rewrite (bigsum_ext live _ (fun k => size s w k)) in low, high
      by (intros k below; rewrite corrected_is by assumption; reflexivity).
    set (sum := bigsum live (fun k => size s w k)) in *.
    apply (Rmult_le_compat_r (INR live)) in low; [|lra]. apply (Rmult_le_compat_r (INR live)) in high; [|lra].
    replace (sum / INR live * INR live) with sum in low, high by (field; lra). lra. }
  assert (scale_pos : forall s w, (w < n_outcomes)%nat -> 0 <= scale s w).
  { intros s w known. assert (H := sizes s w known).
    assert (0 <= bigsum live (fun k => size s w k)) by (apply bigsum_nonneg; intros; apply Rabs_pos). nra. }
  assert (one : E (fun _ => 1) = 1).
  { transitivity (bigsum n_outcomes (fun w => weight w)); [apply bigsum_ext; intros; ring | exact sum_one]. }
  assert (step : forall s, energy (s + 1)%nat <= energy s + 2 * b * drift * (INR live * Y s + b * (INR live * strength))
    + b ^ 2 * (INR live * strength ^ 2) - b * c * (INR live * X s)).
  { intros s.
    assert (squares : bigsum live (fun k => E (fun w => signal s w k ^ 2)) <= INR live * strength ^ 2).
    { assert (H := bounded_strength s). apply (Rmult_le_compat_r (INR live)) in H; [|lra].
      unfold Rdiv in H. rewrite Rmult_assoc, Rinv_l, Rmult_1_r in H by lra. unfold E. lra. }
    assert (taken : flatness * (INR live * X s) <= bigsum live (fun k => E (fun w => scale s w * size s w k))).
    { unfold E, X. rewrite bigsum_swap. unfold E. rewrite <- !bigsum_scal. apply bigsum_le. intros w known.
      rewrite bigsum_scal_r, bigsum_scal. assert (H := sizes s w known). assert (P := scale_pos s w known).
      assert (W := probabilities w known).
      replace (flatness * (INR live * (scale s w ^ 2 * weight w))) with
        (scale s w * (flatness * scale s w * INR live) * weight w) by ring.
      apply Rmult_le_compat_r; [exact W|]. apply Rmult_le_compat_l; [exact P | apply H]. }
    assert (sizes_sum : bigsum live (fun k => E (fun w => size s w k)) <= INR live * Y s).
    { unfold E, Y. rewrite bigsum_swap. unfold E. rewrite <- bigsum_scal. apply bigsum_le. intros w known.
      rewrite bigsum_scal_r. assert (H := sizes s w known). assert (W := probabilities w known).
      replace (INR live * (scale s w * weight w)) with (scale s w * INR live * weight w) by ring.
      apply Rmult_le_compat_r; [exact W | apply H]. }
    assert (magnitudes : bigsum live (fun k => E (fun w => Rabs (signal s w k))) <= INR live * strength).
    { apply (Rmult_le_reg_l (2 * strength)); [lra|]. rewrite <- bigsum_scal.
      apply (Rle_trans _ (bigsum live (fun k => E (fun w => signal s w k ^ 2) + strength ^ 2))).
      - apply bigsum_le. intros k below.
        apply (first_moment n_outcomes weight (signal s) probabilities strength strength_domain one).
      - rewrite bigsum_plus, bigsum_const. nra. }
    assert (held : bigsum live (fun k => E (fun w => Rabs (residual s w k))) <= INR live * Y s + b * (INR live * strength)).
    { apply (Rle_trans _ (bigsum live (fun k => E (fun w => size s w k) + b * E (fun w => Rabs (signal s w k))))).
      - apply bigsum_le. intros k below.
        apply (residual_size n_outcomes weight b (signal s) (residual s) probabilities B).
      - rewrite bigsum_plus, bigsum_scal. nra. }
    assert (pushed : bigsum live (fun k => E (fun w => residual s w k * signal s w k))
      <= drift * bigsum live (fun k => E (fun w => Rabs (residual s w k)))).
    { rewrite <- bigsum_scal. apply bigsum_le. intros k below. exact (small_drift s k below). }
    assert (total : energy (s + 1)%nat = energy s
      + 2 * b * bigsum live (fun k => E (fun w => residual s w k * signal s w k))
      + b ^ 2 * bigsum live (fun k => E (fun w => signal s w k ^ 2))
      - 2 * b * bigsum live (fun k => E (fun w => scale s w * size s w k)) + b ^ 2 * (INR live * X s)).
    { unfold energy. rewrite <- (bigsum_const live (X s)), <- !bigsum_scal, <- !bigsum_plus, <- bigsum_minus,
        <- bigsum_plus. apply bigsum_ext. intros k below.
      apply (step_energy live n_outcomes weight b (scale s) (signal s) (residual s) (residual (s + 1)%nat)
        (update s) k below). }
    rewrite total.
    set (p1 := bigsum live (fun k => E (fun w => residual s w k * signal s w k))) in *.
    set (p2 := bigsum live (fun k => E (fun w => Rabs (residual s w k)))) in *.
    assert (p1 <= drift * (INR live * Y s + b * (INR live * strength))) by nra.
    assert (b ^ 2 * bigsum live (fun k => E (fun w => signal s w k ^ 2)) <= b ^ 2 * (INR live * strength ^ 2))
      by (apply Rmult_le_compat_l; [apply pow2_ge_0 | exact squares]).
    assert (2 * b * p1 <= 2 * b * (drift * (INR live * Y s + b * (INR live * strength))))
      by (apply Rmult_le_compat_l; lra).
    assert (2 * b * (flatness * (INR live * X s)) <= 2 * b * bigsum live (fun k => E (fun w => scale s w * size s w k)))
      by (apply Rmult_le_compat_l; lra).
    replace (b * c * (INR live * X s)) with (2 * b * (flatness * (INR live * X s)) - b ^ 2 * (INR live * X s))
      by (unfold c, b; ring). lra. }
  assert (added : forall n, energy n + b * c * INR live * bigsum n X <= energy 0%nat + 2 * b * drift * INR live * bigsum n Y
    + INR n * (2 * b ^ 2 * drift * INR live * strength + b ^ 2 * INR live * strength ^ 2)).
  { induction n; [simpl; lra|]. assert (H := step n). replace (n + 1)%nat with (S n) in H by lia.
    rewrite S_INR. simpl bigsum. lra. }
  assert (energy_pos : 0 <= energy n_steps).
  { unfold energy, E. apply bigsum_nonneg. intros k below. apply bigsum_nonneg. intros w known.
    assert (W := probabilities w known). assert (H := pow2_ge_0 (residual n_steps w k)). nra. }
  assert (energy_start : energy 0%nat <= INR live * start ^ 2).
  { assert (H := small_start). apply (Rmult_le_compat_r (INR live)) in H; [|lra].
    unfold Rdiv in H. rewrite Rmult_assoc, Rinv_l, Rmult_1_r in H by lra. unfold energy, E, residual. lra. }
  set (mean_square := bigsum n_steps X / INR n_steps). set (mean := bigsum n_steps Y / INR n_steps).
  assert (X_pos : forall s, 0 <= X s).
  { intros s. apply bigsum_nonneg. intros w known. assert (W := probabilities w known).
    assert (H := pow2_ge_0 (scale s w)). nra. }
  assert (mean_square_pos : 0 <= mean_square).
  { apply Rmult_le_pos; [apply bigsum_nonneg; intros; apply X_pos | left; apply Rinv_0_lt_compat; exact T]. }
  set (z := sqrt mean_square). assert (Z : 0 <= z) by apply sqrt_pos.
  assert (ZZ : z * z = mean_square) by (apply sqrt_sqrt; exact mean_square_pos).
  assert (balance : c * mean_square <= 2 * drift * mean + (b * (strength ^ 2 + 2 * drift * strength)
    + start ^ 2 / (INR n_steps * b))).
  { apply (Rmult_le_reg_l (b * INR live * INR n_steps)); [apply Rmult_lt_0_compat; [nra|exact T]|].
    replace (b * INR live * INR n_steps * (c * mean_square)) with (b * c * INR live * bigsum n_steps X)
      by (unfold mean_square; field; lra).
    replace (b * INR live * INR n_steps * (2 * drift * mean + (b * (strength ^ 2 + 2 * drift * strength)
      + start ^ 2 / (INR n_steps * b)))) with (2 * b * drift * INR live * bigsum n_steps Y
      + INR n_steps * (2 * b ^ 2 * drift * INR live * strength + b ^ 2 * INR live * strength ^ 2)
      + INR live * start ^ 2) by (unfold mean; field; lra).
    assert (H := added n_steps). lra. }
  assert (first_second : 0 < z -> mean <= z).
  { intros positive. apply (Rmult_le_reg_l (2 * z)); [lra|].
    replace (2 * z * z) with (mean_square + z ^ 2) by (rewrite <- ZZ; ring).
    apply (Rmult_le_reg_r (INR n_steps)); [exact T|].
    replace (2 * z * mean * INR n_steps) with (2 * z * bigsum n_steps Y) by (unfold mean; field; lra).
    replace ((mean_square + z ^ 2) * INR n_steps) with (bigsum n_steps X + INR n_steps * z ^ 2)
      by (unfold mean_square; field; lra).
    rewrite <- (bigsum_const n_steps (z ^ 2)), <- bigsum_plus, <- bigsum_scal. apply bigsum_le. intros s _.
    rewrite <- (Rmult_1_r (z ^ 2)). rewrite <- one. unfold X, Y, E. rewrite <- !bigsum_scal, <- bigsum_plus.
    apply bigsum_le. intros w known. assert (W := probabilities w known).
    assert (H := pow2_ge_0 (scale s w - z)). nra. }
  rewrite <- sqrt_div_alt by exact T.
  change (z <= (drift + sqrt (drift ^ 2 + (b * (strength ^ 2 + 2 * drift * strength)
    + start ^ 2 / (INR n_steps * b)) * c)) / c).
  set (noise := b * (strength ^ 2 + 2 * drift * strength) + start ^ 2 / (INR n_steps * b)) in *.
  assert (noise_pos : 0 <= noise).
  { unfold noise. apply Rplus_le_le_0_compat.
    - apply Rmult_le_pos; [exact (Rlt_le _ _ B)|]. assert (H := pow2_ge_0 strength).
      assert (0 <= drift * strength) by (apply Rmult_le_pos; [exact drift_domain | exact (Rlt_le _ _ strength_domain)]).
      lra.
    - apply Rmult_le_pos; [apply pow2_ge_0 | left; apply Rinv_0_lt_compat, Rmult_lt_0_compat; assumption]. }
  set (root := sqrt (drift ^ 2 + noise * c)). assert (root_pos : 0 <= root) by apply sqrt_pos.
  assert (inside : 0 <= drift ^ 2 + noise * c) by (assert (H := pow2_ge_0 drift); nra).
  assert (root_square : root * root = drift ^ 2 + noise * c) by (apply sqrt_sqrt; exact inside).
  apply (Rmult_le_reg_r c); [exact flat_enough|].
  replace ((drift + root) / c * c) with (drift + root) by (field; lra).
  destruct (Rle_lt_or_eq_dec 0 z Z) as [positive|zero]; [|rewrite <- zero; lra].
  specialize (first_second positive).
  assert (smaller : drift * mean <= drift * z) by (apply Rmult_le_compat_l; [exact drift_domain | exact first_second]).
  assert (quadratic : c * (z * z) <= 2 * drift * z + noise) by (rewrite ZZ; lra).
  destruct (Rle_dec (z * c - drift) root) as [fine|worse]; [lra|]. exfalso. apply Rnot_le_lt in worse.
  assert (root * root < (z * c - drift) * (z * c - drift)) by (apply Rmult_le_0_lt_compat; assumption).
  assert (c * (c * (z * z)) <= c * (2 * drift * z + noise)) by (apply Rmult_le_compat_l; [lra | exact quadratic]).
  rewrite root_square in *. lra.
Qed.
