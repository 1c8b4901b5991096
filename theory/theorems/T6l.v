(* T6a's rate for the regularised function: weight decay is its own part of the gradient, times P. *)
From Onebit Require Import Prelude Descent ScheduledDescent.

Theorem T6l :
  forall (n_workers : nat) (dim : nat) (n_steps : nat) (params : nat -> nat -> nat -> R) (momentum : nat -> nat -> nat -> R) (total_error : nat -> nat -> nat -> R) (virtual_iterate : nat -> nat -> nat -> R) (preconditioner : nat -> R) (beta1 : R) (lr : R) (weight_decay : R) (smoothness : R) (noise : R) (error_bound : R) (p_max : R) (n_outcomes : nat) (probability : nat -> R) (past : nat -> nat -> R) (objective : (nat -> R) -> R) (gradient : (nat -> R) -> nat -> R) (lowest : R) (mean_grad : nat -> nat -> nat -> R) (start_gap : R) (start_momentum : R) (param_bound : R),
  forall (n_workers_domain : (1 <= n_workers)%nat),
  forall (dim_domain : (1 <= dim)%nat),
  forall (n_steps_domain : (1 <= n_steps)%nat),
  forall (beta1_domain : 0 < beta1 /\ beta1 < 1),
  forall (lr_domain : 0 < lr),
  forall (weight_decay_domain : 0 <= weight_decay),
  forall (smoothness_domain : 0 < smoothness),
  forall (noise_domain : 0 <= noise),
  forall (error_bound_domain : 0 <= error_bound),
  forall (p_max_domain : 0 < p_max),
  forall (n_outcomes_domain : (1 <= n_outcomes)%nat),
  forall (start_gap_domain : 0 < start_gap),
  forall (start_momentum_domain : 0 <= start_momentum),
  forall (param_bound_domain : 0 <= param_bound),
  forall (weights_nonnegative : forall outcome : nat, (outcome < n_outcomes)%nat -> 0 <= (probability outcome)),
  forall (weights_sum : (bigsum n_outcomes (fun outcome => (probability outcome))) = 1),
  forall (descent_inequality : forall point : nat -> R, forall place : nat -> R, (objective place) <= (((smoothness * (bigsum dim (fun k => (((place k) - (point k)) ^ 2)))) / 2) + (objective point) + (bigsum dim (fun k => (((place k) - (point k)) * ((gradient point) k)))))),
  forall (lipschitz_gradient : forall point : nat -> R, forall place : nat -> R, (bigsum dim (fun k => ((((gradient place) k) - ((gradient point) k)) ^ 2))) <= ((smoothness ^ 2) * (bigsum dim (fun k => (((place k) - (point k)) ^ 2))))),
  forall (bounded_below : forall point : nat -> R, lowest <= (((weight_decay * (bigsum dim (fun k => (((point k) ^ 2) / (preconditioner k))))) / 2) + (objective point))),
  forall (preconditioner_positive : forall k : nat, (k < dim)%nat -> 0 < (preconditioner k)),
  forall (preconditioner_bounded : forall k : nat, (k < dim)%nat -> (preconditioner k) <= p_max),
  forall (virtual_point : forall step : nat, (step < (n_steps + 1)%nat)%nat -> forall outcome : nat, (outcome < n_outcomes)%nat -> forall k : nat, (k < dim)%nat -> (virtual_iterate step outcome k) = ((params step outcome k) - ((lr * ((beta1 * (momentum step outcome k)) + (total_error step outcome k)) * (preconditioner k)) / (1 - beta1)))),
  forall (conservation : forall step : nat, (step < n_steps)%nat -> forall outcome : nat, (outcome < n_outcomes)%nat -> forall k : nat, (k < dim)%nat -> ((momentum (step + 1)%nat outcome k) + (total_error (step + 1)%nat outcome k)) = ((beta1 * (momentum step outcome k)) + ((1 - beta1) * (mean_grad step outcome k)) + (total_error step outcome k))),
  forall (step_taken : forall step : nat, (step < n_steps)%nat -> forall outcome : nat, (outcome < n_outcomes)%nat -> forall k : nat, (k < dim)%nat -> (params (step + 1)%nat outcome k) = ((params step outcome k) - (lr * ((weight_decay * (params step outcome k)) + ((momentum (step + 1)%nat outcome k) * (preconditioner k)))))),
  forall (unbiased : forall step : nat, (step < n_steps)%nat -> forall known : nat -> R, forall k : nat, (k < dim)%nat -> (forall outcome : nat, (outcome < n_outcomes)%nat -> forall other : nat, (other < n_outcomes)%nat -> ((past step outcome) = (past step other)) -> (known outcome) = (known other)) -> (bigsum n_outcomes (fun outcome => (((mean_grad step outcome k) - ((gradient (params step outcome)) k)) * (known outcome) * (probability outcome)))) = 0),
  forall (params_known : forall step : nat, (step < n_steps)%nat -> forall outcome : nat, (outcome < n_outcomes)%nat -> forall other : nat, (other < n_outcomes)%nat -> forall k : nat, (k < dim)%nat -> ((past step outcome) = (past step other)) -> (params step outcome k) = (params step other k)),
  forall (virtual_known : forall step : nat, (step < n_steps)%nat -> forall outcome : nat, (outcome < n_outcomes)%nat -> forall other : nat, (other < n_outcomes)%nat -> forall k : nat, (k < dim)%nat -> ((past step outcome) = (past step other)) -> (virtual_iterate step outcome k) = (virtual_iterate step other k)),
  forall (noise_level : forall step : nat, (step < n_steps)%nat -> (bigsum n_outcomes (fun outcome => ((probability outcome) * (bigsum dim (fun k => (((mean_grad step outcome k) - ((gradient (params step outcome)) k)) ^ 2)))))) <= ((noise ^ 2) / (INR n_workers))),
  forall (error_bounded : forall step : nat, (step < n_steps)%nat -> (bigsum n_outcomes (fun outcome => ((probability outcome) * (bigsum dim (fun k => ((total_error step outcome k) ^ 2)))))) <= (error_bound ^ 2)),
  forall (params_bounded : forall step : nat, (step < n_steps)%nat -> (bigsum n_outcomes (fun outcome => ((probability outcome) * (bigsum dim (fun k => (((params step outcome k) ^ 2) / (preconditioner k))))))) <= (param_bound ^ 2)),
  forall (gap_at_start : ((bigsum n_outcomes (fun outcome => ((((weight_decay * (bigsum dim (fun k => (((virtual_iterate 0%nat outcome k) ^ 2) / (preconditioner k))))) / 2) + (objective (virtual_iterate 0%nat outcome))) * (probability outcome)))) - lowest) <= start_gap),
  forall (momentum_at_start : (bigsum n_outcomes (fun outcome => ((probability outcome) * (bigsum dim (fun k => ((momentum 0%nat outcome k) ^ 2)))))) <= (start_momentum ^ 2)),
  forall (step_size : 0 < (1 - (lr * (weight_decay + (p_max * smoothness))) - ((4 * (beta1 ^ 2) * (lr ^ 2) * ((weight_decay + (p_max * smoothness)) ^ 2)) / ((1 - beta1) ^ 2)))),
  (bigsum n_steps (fun step => ((bigsum n_outcomes (fun outcome => ((probability outcome) * (bigsum dim (fun k => (((((weight_decay * (params step outcome k)) / (preconditioner k)) + ((gradient (params step outcome)) k)) ^ 2) * (preconditioner k))))))) / (INR n_steps)))) <= ((((2 * start_gap) / (lr * (INR n_steps))) + ((2 * (lr ^ 2) * (((beta1 ^ 2) * ((2 * (param_bound ^ 2) * (weight_decay ^ 2)) + (((noise ^ 2) * p_max) / (INR n_workers)))) + ((error_bound ^ 2) * p_max)) * ((weight_decay + (p_max * smoothness)) ^ 2)) / ((1 - beta1) ^ 2)) + ((lr * (noise ^ 2) * p_max * (weight_decay + (p_max * smoothness))) / (INR n_workers)) + ((2 * (beta1 ^ 2) * (lr ^ 2) * p_max * (start_momentum ^ 2) * ((weight_decay + (p_max * smoothness)) ^ 2)) / ((INR n_steps) * ((1 - beta1) ^ 3)))) / (1 - (lr * (weight_decay + (p_max * smoothness))) - ((4 * (beta1 ^ 2) * (lr ^ 2) * ((weight_decay + (p_max * smoothness)) ^ 2)) / ((1 - beta1) ^ 2)))).
Proof.
  intros n_workers dim n_steps params momentum total_error virtual_iterate preconditioner beta1 lr weight_decay smoothness
    noise error_bound p_max n_outcomes probability past objective gradient lowest mean_grad start_gap start_momentum
    param_bound n_workers_domain dim_domain n_steps_domain beta1_domain lr_domain weight_decay_domain smoothness_domain
    noise_domain error_bound_domain p_max_domain n_outcomes_domain start_gap_domain start_momentum_domain
    param_bound_domain weights_nonnegative weights_sum descent_inequality lipschitz_gradient bounded_below
    preconditioner_positive preconditioner_bounded virtual_point conservation step_taken unbiased params_known
    virtual_known noise_level error_bounded params_bounded gap_at_start momentum_at_start step_size.
  assert (range : forall k, (k < dim)%nat -> 0 <= preconditioner k <= p_max)
    by (intros k inside; specialize (preconditioner_positive k inside); split; [lra|auto]).
  assert (same := gradient_of_equal dim (smoothness ^ 2) gradient lipschitz_gradient).
  assert (workers : 0 < INR n_workers) by (apply lt_0_INR; lia).
  assert (steps_pos : 0 < INR n_steps) by (apply lt_0_INR; lia).
  assert (stiff : 0 < p_max * smoothness) by (apply Rmult_lt_0_compat; assumption).
  set (f := regularised dim preconditioner weight_decay objective).
  set (slope := regularised_slope preconditioner weight_decay gradient).
  set (H := fun t w k => mean_grad t w k + weight_decay * params t w k / preconditioner k).
  assert (difference : forall t w k, H t w k - slope (params t w) k = mean_grad t w k - gradient (params t w) k)
    by (intros; unfold H, slope, regularised_slope; ring).
  assert (uncorrelated : forall (z : nat -> nat -> nat -> R) t k, (t < n_steps)%nat -> (k < dim)%nat ->
    (forall w, (w < n_outcomes)%nat -> forall v, (v < n_outcomes)%nat -> forall l, (l < dim)%nat ->
      past t w = past t v -> z t w l = z t v l) ->
    expect n_outcomes probability (fun w => slope (z t w) k * (mean_grad t w k - gradient (params t w) k)) = 0
    /\ expect n_outcomes probability (fun w => gradient (z t w) k * (mean_grad t w k - gradient (params t w) k)) = 0).
  { intros z t k steps coord known.
    assert (equal_gradient : forall w, (w < n_outcomes)%nat -> forall v, (v < n_outcomes)%nat -> past t w = past t v ->
      gradient (z t w) k = gradient (z t v) k)
      by (intros w inside v inside_v equal; apply same; [intros; apply known|]; auto).
    split.
    - rewrite <- (unbiased t steps (fun w => slope (z t w) k) k coord); [apply bigsum_ext; intros; ring|].
      intros w inside v inside_v equal. unfold slope, regularised_slope.
      rewrite (equal_gradient w inside v inside_v equal), (known w inside v inside_v k coord equal). reflexivity.
    - rewrite <- (unbiased t steps (fun w => gradient (z t w) k) k coord); [apply bigsum_ext; intros; ring|].
      intros w inside v inside_v equal. apply (equal_gradient w inside v inside_v equal). }
  assert (known_x := fun t k steps coord => uncorrelated params t k steps coord
    (fun w inside v inside_v l coord_l => params_known t steps w inside v inside_v l coord_l)).
  assert (known_y := fun t k steps coord => uncorrelated virtual_iterate t k steps coord
    (fun w inside v inside_v l coord_l => virtual_known t steps w inside v inside_v l coord_l)).
  set (S2 := p_max * (noise ^ 2 / INR n_workers)).
  assert (noisy : forall t, (t < n_steps)%nat -> expect n_outcomes probability (fun w => bigsum dim (fun k =>
    preconditioner k * (mean_grad t w k - gradient (params t w) k) ^ 2)) <= S2)
    by (intros t steps; apply (expect_weighted_once _ _ _ _ _ _ _ weights_nonnegative range (Rlt_le _ _ p_max_domain)
      (noise_level t steps))).
  set (c := 1 - lr * (weight_decay + p_max * smoothness)
    - 4 * beta1 ^ 2 * lr ^ 2 * (weight_decay + p_max * smoothness) ^ 2 / (1 - beta1) ^ 2) in *.
  assert (main := scheduled_rate n_outcomes dim n_steps probability weights_nonnegative weights_sum preconditioner
    (fun _ => lr) beta1 (p_max * smoothness + weight_decay) S2 (p_max * error_bound ^ 2) 2
    (S2 + 2 * weight_decay ^ 2 * param_bound ^ 2) lowest c (fun k inside => proj1 (range k inside)) beta1_domain
    ltac:(lra) (fun _ _ => lr_domain) (fun _ _ => Rle_refl lr) params virtual_iterate momentum total_error mean_grad H f slope).
  specialize (main ltac:(intros t w k steps inside coord; rewrite virtual_point by (assumption || lia); field; lra)).
  specialize (main ltac:(intros t w k steps inside coord; rewrite <- Nat.add_1_r; apply conservation; assumption)).
  assert (moved : forall t w k, (t < n_steps)%nat -> (w < n_outcomes)%nat -> (k < dim)%nat ->
    virtual_iterate (S t) w k = virtual_iterate t w k + preconditioner k * ((lr - lr)
      * (total_error (S t) w k / (1 - beta1)) - lr * H t w k)).
  { intros t w k steps inside coord. specialize (preconditioner_positive k coord). rewrite <- Nat.add_1_r.
    rewrite (virtual_point (t + 1)%nat), (virtual_point t), step_taken by (assumption || lia).
    assert (residual := conservation t steps w inside k coord).
    replace (beta1 * momentum t w k + total_error t w k) with (momentum (t + 1)%nat w k + total_error (t + 1)%nat w k
      - (1 - beta1) * mean_grad t w k) by (rewrite residual; ring).
    unfold H. field. lra. }
  specialize (main moved).
  specialize (main (regularised_smooth dim preconditioner p_max smoothness weight_decay objective gradient
    preconditioner_positive (weighted_descent dim preconditioner p_max smoothness objective gradient range smoothness_domain
    descent_inequality))).
  specialize (main (regularised_lipschitz dim preconditioner p_max smoothness weight_decay gradient
    preconditioner_positive stiff weight_decay_domain
    (weighted_lipschitz dim preconditioner p_max smoothness gradient range p_max_domain lipschitz_gradient))).
  assert (floor : forall u, lowest <= f u).
  { intros u. eapply Rle_trans; [apply (bounded_below u)|]. apply Req_le. unfold f, regularised. field. }
  specialize (main floor).
  specialize (main ltac:(intros t k steps coord; rewrite <- (proj1 (known_x t k steps coord)); apply expect_ext;
    intros; rewrite difference; reflexivity)).
  specialize (main ltac:(intros t k steps coord; rewrite <- (proj1 (known_y t k steps coord)); apply expect_ext;
    intros; rewrite difference; reflexivity)).
  specialize (main ltac:(intros t steps; eapply Rle_trans; [|apply (noisy t steps)]; apply Req_le, expect_ext;
    intros w _; apply bigsum_ext; intros; rewrite difference; reflexivity)).
  specialize (main (fun t steps => expect_weighted_once _ _ _ _ _ _ _ weights_nonnegative range (Rlt_le _ _ p_max_domain)
    (error_bounded t steps))).
  specialize (main ltac:(intros; lra)).
  assert (sampled : forall t, (t < n_steps)%nat -> expect n_outcomes probability
    (fun w => bigsum dim (fun k => preconditioner k * mean_grad t w k ^ 2))
    <= 2 * expect n_outcomes probability (fun w => bigsum dim (fun k => preconditioner k * slope (params t w) k ^ 2))
      + (S2 + 2 * weight_decay ^ 2 * param_bound ^ 2)).
  { intros t steps.
    assert (size := weighted_second_moment n_outcomes dim probability preconditioner S2 (fun w => gradient (params t w))
      (mean_grad t) (fun k coord => proj2 (known_x t k steps coord)) (noisy t steps)). cbv beta in size.
    assert (split : expect n_outcomes probability
        (fun w => bigsum dim (fun k => preconditioner k * gradient (params t w) k ^ 2))
      <= expect n_outcomes probability (fun w => 2 * bigsum dim (fun k => preconditioner k * slope (params t w) k ^ 2)
        + 2 * weight_decay ^ 2 * bigsum dim (fun k => params t w k ^ 2 / preconditioner k))).
    { apply expect_le; [exact weights_nonnegative|]. intros w _. rewrite <- !bigsum_scal, <- bigsum_plus.
      apply bigsum_le. intros k inside. assert (large := preconditioner_positive k inside).
      unfold slope, regularised_slope.
      assert (0 <= preconditioner k * (gradient (params t w) k + 2 * (weight_decay * params t w k / preconditioner k)) ^ 2)
        by (apply Rmult_le_pos; [lra|apply pow2_ge_0]).
      match goal with |- ?small <= ?big => replace big with (small + preconditioner k * (gradient (params t w) k
        + 2 * (weight_decay * params t w k / preconditioner k)) ^ 2) by (field; lra) end.
      lra. }
    rewrite expect_plus, !expect_scal in split. assert (bounded := params_bounded t steps).
    change (expect n_outcomes probability (fun w => bigsum dim (fun k => params t w k ^ 2 / preconditioner k))
      <= param_bound ^ 2) in bounded.
    apply (Rmult_le_compat_l (2 * weight_decay ^ 2)) in bounded; [lra|].
    apply Rmult_le_pos; [lra|apply pow2_ge_0]. }
  specialize (main sampled).
  specialize (main ltac:(intros t _; apply Req_le; unfold c; field; lra)).
  assert (start : expect n_outcomes probability (fun w => bigsum dim (fun k => preconditioner k * momentum 0%nat w k ^ 2))
    <= p_max * start_momentum ^ 2)
    by (apply (expect_weighted_once _ _ _ _ _ _ _ weights_nonnegative range (Rlt_le _ _ p_max_domain) momentum_at_start)).
  assert (begin : expect n_outcomes probability (fun w => f (virtual_iterate 0%nat w)) - lowest <= start_gap).
  { eapply Rle_trans; [|exact gap_at_start]. apply Req_le. unfold expect, f, regularised. f_equal.
    apply bigsum_ext. intros; field. }
  cbv beta in main. rewrite bigsum_scal, bigsum_const in main.
  apply Rmult_le_reg_l with (lr * c * INR n_steps); [repeat apply Rmult_lt_0_compat; assumption|].
  match goal with |- _ * bigsum _ ?body <= _ =>
    assert (sums : lr * c * INR n_steps * bigsum n_steps body = c * (lr * bigsum n_steps (fun t => expect n_outcomes
      probability (fun w => bigsum dim (fun k => preconditioner k * slope (params t w) k ^ 2))))) end.
  { rewrite (Rmult_comm lr c), !Rmult_assoc. do 2 f_equal. rewrite <- bigsum_scal. apply bigsum_ext. intros t _.
    match goal with |- ?n * (?sum / ?n) = _ => replace (n * (sum / n)) with sum by (field; lra) end.
    unfold expect. apply bigsum_ext. intros w _. f_equal. apply bigsum_ext. intros k _.
    unfold slope, regularised_slope. ring. }
  rewrite sums. eapply Rle_trans; [exact main|].
  eapply Rle_trans.
  { apply Rplus_le_compat_r. apply Rplus_le_compat; [apply Rmult_le_compat_l; [lra|exact begin]|].
    apply Rmult_le_compat_l; [|exact start].
    apply Rmult_le_pos; [lra|]. apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat, pow_lt; lra].
    repeat apply Rmult_le_pos; try apply pow2_ge_0; try apply pow_le; lra. }
  apply Req_le. unfold S2. clearbody c. field. repeat split; lra.
Qed.
