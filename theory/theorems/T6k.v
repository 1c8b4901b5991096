(* T6a's rate for rates that fall: the Lyapunov function of ScheduledDescent.v in the norms of P. *)
From Onebit Require Import Prelude Descent ScheduledDescent.

Theorem T6k :
  forall (n_workers : nat) (dim : nat) (n_steps : nat) (params : nat -> nat -> nat -> R) (momentum : nat -> nat -> nat -> R) (total_error : nat -> nat -> nat -> R) (virtual_iterate : nat -> nat -> nat -> R) (preconditioner : nat -> R) (beta1 : R) (smoothness : R) (noise : R) (error_bound : R) (p_max : R) (n_outcomes : nat) (probability : nat -> R) (past : nat -> nat -> R) (objective : (nat -> R) -> R) (gradient : (nat -> R) -> nat -> R) (lowest : R) (mean_grad : nat -> nat -> nat -> R) (start_gap : R) (start_momentum : R) (learning_rates : nat -> R) (averaged_rates : nat -> R),
  forall (n_workers_domain : (1 <= n_workers)%nat),
  forall (dim_domain : (1 <= dim)%nat),
  forall (n_steps_domain : (1 <= n_steps)%nat),
  forall (beta1_domain : 0 < beta1 /\ beta1 < 1),
  forall (smoothness_domain : 0 < smoothness),
  forall (noise_domain : 0 <= noise),
  forall (error_bound_domain : 0 <= error_bound),
  forall (p_max_domain : 0 < p_max),
  forall (n_outcomes_domain : (1 <= n_outcomes)%nat),
  forall (start_gap_domain : 0 < start_gap),
  forall (start_momentum_domain : 0 <= start_momentum),
  forall (weights_nonnegative : forall outcome : nat, (outcome < n_outcomes)%nat -> 0 <= (probability outcome)),
  forall (weights_sum : (bigsum n_outcomes (fun outcome => (probability outcome))) = 1),
  forall (descent_inequality : forall point : nat -> R, forall place : nat -> R, (objective place) <= (((smoothness * (bigsum dim (fun k => (((place k) - (point k)) ^ 2)))) / 2) + (objective point) + (bigsum dim (fun k => (((place k) - (point k)) * ((gradient point) k)))))),
  forall (lipschitz_gradient : forall point : nat -> R, forall place : nat -> R, (bigsum dim (fun k => ((((gradient place) k) - ((gradient point) k)) ^ 2))) <= ((smoothness ^ 2) * (bigsum dim (fun k => (((place k) - (point k)) ^ 2))))),
  forall (bounded_below : forall point : nat -> R, lowest <= (objective point)),
  forall (preconditioner_nonnegative : forall k : nat, (k < dim)%nat -> 0 <= (preconditioner k)),
  forall (preconditioner_bounded : forall k : nat, (k < dim)%nat -> (preconditioner k) <= p_max),
  forall (rates_positive : forall step : nat, (step < (n_steps + 1)%nat)%nat -> 0 < (learning_rates step)),
  forall (rates_fall : forall step : nat, (step < n_steps)%nat -> (learning_rates (step + 1)%nat) <= (learning_rates step)),
  forall (rates_averaged : forall step : nat, (step < n_steps)%nat -> (averaged_rates step) = ((beta1 * (averaged_rates (step + 1)%nat)) + ((1 - beta1) * (learning_rates step)))),
  forall (averaged_at_end : (averaged_rates n_steps) = (learning_rates n_steps)),
  forall (virtual_point : forall step : nat, (step < (n_steps + 1)%nat)%nat -> forall outcome : nat, (outcome < n_outcomes)%nat -> forall k : nat, (k < dim)%nat -> (virtual_iterate step outcome k) = ((params step outcome k) - ((((beta1 * (momentum step outcome k)) + (total_error step outcome k)) * (averaged_rates step) * (preconditioner k)) / (1 - beta1)))),
  forall (conservation : forall step : nat, (step < n_steps)%nat -> forall outcome : nat, (outcome < n_outcomes)%nat -> forall k : nat, (k < dim)%nat -> ((momentum (step + 1)%nat outcome k) + (total_error (step + 1)%nat outcome k)) = ((beta1 * (momentum step outcome k)) + ((1 - beta1) * (mean_grad step outcome k)) + (total_error step outcome k))),
  forall (step_taken : forall step : nat, (step < n_steps)%nat -> forall outcome : nat, (outcome < n_outcomes)%nat -> forall k : nat, (k < dim)%nat -> (params (step + 1)%nat outcome k) = ((params step outcome k) - ((learning_rates step) * (momentum (step + 1)%nat outcome k) * (preconditioner k)))),
  forall (unbiased : forall step : nat, (step < n_steps)%nat -> forall known : nat -> R, forall k : nat, (k < dim)%nat -> (forall outcome : nat, (outcome < n_outcomes)%nat -> forall other : nat, (other < n_outcomes)%nat -> ((past step outcome) = (past step other)) -> (known outcome) = (known other)) -> (bigsum n_outcomes (fun outcome => (((mean_grad step outcome k) - ((gradient (params step outcome)) k)) * (known outcome) * (probability outcome)))) = 0),
  forall (params_known : forall step : nat, (step < n_steps)%nat -> forall outcome : nat, (outcome < n_outcomes)%nat -> forall other : nat, (other < n_outcomes)%nat -> forall k : nat, (k < dim)%nat -> ((past step outcome) = (past step other)) -> (params step outcome k) = (params step other k)),
  forall (virtual_known : forall step : nat, (step < n_steps)%nat -> forall outcome : nat, (outcome < n_outcomes)%nat -> forall other : nat, (other < n_outcomes)%nat -> forall k : nat, (k < dim)%nat -> ((past step outcome) = (past step other)) -> (virtual_iterate step outcome k) = (virtual_iterate step other k)),
  forall (noise_level : forall step : nat, (step < n_steps)%nat -> (bigsum n_outcomes (fun outcome => ((probability outcome) * (bigsum dim (fun k => (((mean_grad step outcome k) - ((gradient (params step outcome)) k)) ^ 2)))))) <= ((noise ^ 2) / (INR n_workers))),
  forall (error_bounded : forall step : nat, (step < (n_steps + 1)%nat)%nat -> (bigsum n_outcomes (fun outcome => ((probability outcome) * (bigsum dim (fun k => ((total_error step outcome k) ^ 2)))))) <= (error_bound ^ 2)),
  forall (gap_at_start : ((bigsum n_outcomes (fun outcome => ((objective (virtual_iterate 0%nat outcome)) * (probability outcome)))) - lowest) <= start_gap),
  forall (momentum_at_start : (bigsum n_outcomes (fun outcome => ((probability outcome) * (bigsum dim (fun k => ((momentum 0%nat outcome k) ^ 2)))))) <= (start_momentum ^ 2)),
  forall (step_size : 0 < (1 - (p_max * smoothness * ((2 * (learning_rates 0%nat)) - (learning_rates n_steps))) - ((2 * (beta1 ^ 2) * (p_max ^ 2) * (smoothness ^ 2) * ((learning_rates 0%nat) ^ 2)) / ((1 - beta1) ^ 2)))),
  ((bigsum n_steps (fun step => ((averaged_rates step) * (bigsum n_outcomes (fun outcome => ((probability outcome) * (bigsum dim (fun k => ((((gradient (params step outcome)) k) ^ 2) * (preconditioner k)))))))))) / (bigsum n_steps (fun step => (averaged_rates step)))) <= (((2 * start_gap) + (((error_bound ^ 2) * p_max * (bigsum n_steps (fun step => (((((averaged_rates step) - (averaged_rates (step + 1)%nat)) / (averaged_rates step)) + (p_max * smoothness * ((2 * (averaged_rates step)) - (averaged_rates (step + 1)%nat)))) * ((averaged_rates step) - (averaged_rates (step + 1)%nat)))))) / ((1 - beta1) ^ 2)) + (((noise ^ 2) * (p_max ^ 2) * smoothness * (bigsum n_steps (fun step => (((2 * (averaged_rates step)) - (averaged_rates (step + 1)%nat)) * (averaged_rates step))))) / (INR n_workers)) + ((2 * (p_max ^ 3) * (smoothness ^ 2) * ((error_bound ^ 2) + (((beta1 ^ 2) * (noise ^ 2)) / (INR n_workers))) * (bigsum n_steps (fun step => ((averaged_rates step) ^ 3)))) / ((1 - beta1) ^ 2)) + ((2 * (beta1 ^ 2) * (p_max ^ 3) * (smoothness ^ 2) * (start_momentum ^ 2) * ((averaged_rates 0%nat) ^ 3)) / ((1 - beta1) ^ 3))) / ((1 - (p_max * smoothness * ((2 * (learning_rates 0%nat)) - (learning_rates n_steps))) - ((2 * (beta1 ^ 2) * (p_max ^ 2) * (smoothness ^ 2) * ((learning_rates 0%nat) ^ 2)) / ((1 - beta1) ^ 2))) * (bigsum n_steps (fun step => (averaged_rates step))))).
Proof.
  intros n_workers dim n_steps params momentum total_error virtual_iterate preconditioner beta1 smoothness noise
    error_bound p_max n_outcomes probability past objective gradient lowest mean_grad start_gap start_momentum
    learning_rates averaged_rates
    n_workers_domain dim_domain n_steps_domain beta1_domain smoothness_domain noise_domain error_bound_domain
    p_max_domain n_outcomes_domain start_gap_domain start_momentum_domain weights_nonnegative weights_sum
    descent_inequality lipschitz_gradient bounded_below preconditioner_nonnegative preconditioner_bounded rates_positive
    rates_fall rates_averaged averaged_at_end virtual_point conservation step_taken unbiased params_known virtual_known
    noise_level error_bounded gap_at_start momentum_at_start step_size.
  assert (range : forall k, (k < dim)%nat -> 0 <= preconditioner k <= p_max) by (intros k inside; split; auto).
  assert (same := gradient_of_equal dim (smoothness ^ 2) gradient lipschitz_gradient).
  assert (workers : 0 < INR n_workers) by (apply lt_0_INR; lia).
  assert (averaged : forall t, (t < n_steps)%nat ->
    averaged_rates t = beta1 * averaged_rates (t + 1)%nat + (1 - beta1) * learning_rates t)
    by (intros t steps; rewrite rates_averaged by exact steps; ring).
  assert (between : forall t, (t <= n_steps)%nat -> learning_rates n_steps <= averaged_rates t <= learning_rates t)
    by (intros t steps; apply (averaged_between n_steps beta1 learning_rates averaged_rates beta1_domain rates_fall averaged
      averaged_at_end (n_steps - t)); lia).
  assert (falls := averaged_falls n_steps beta1 learning_rates averaged_rates beta1_domain rates_fall averaged averaged_at_end).
  assert (first := first_is_largest n_steps learning_rates rates_fall).
  assert (last : 0 < learning_rates n_steps) by (apply rates_positive; lia).
  assert (known_x : forall t k, (t < n_steps)%nat -> (k < dim)%nat ->
    expect n_outcomes probability (fun w => gradient (params t w) k * (mean_grad t w k - gradient (params t w) k)) = 0).
  { intros t k steps coord. rewrite <- (unbiased t steps (fun w => gradient (params t w) k) k coord);
      [apply bigsum_ext; intros; ring|intros w inside v inside_v equal; apply same; [intros; apply params_known|]; auto]. }
  assert (known_y : forall t k, (t < n_steps)%nat -> (k < dim)%nat ->
    expect n_outcomes probability (fun w => gradient (virtual_iterate t w) k * (mean_grad t w k - gradient (params t w) k)) = 0).
  { intros t k steps coord. rewrite <- (unbiased t steps (fun w => gradient (virtual_iterate t w) k) k coord);
      [apply bigsum_ext; intros; ring|intros w inside v inside_v equal; apply same; [intros; apply virtual_known|]; auto]. }
  assert (noisy : forall t, (t < n_steps)%nat -> expect n_outcomes probability (fun w => bigsum dim (fun k =>
    preconditioner k * (mean_grad t w k - gradient (params t w) k) ^ 2)) <= p_max * (noise ^ 2 / INR n_workers))
    by (intros t steps; apply (expect_weighted_once _ _ _ _ _ _ _ weights_nonnegative range (Rlt_le _ _ p_max_domain)
      (noise_level t steps))).
  set (c := 1 - p_max * smoothness * (2 * learning_rates 0%nat - learning_rates n_steps)
    - 2 * beta1 ^ 2 * p_max ^ 2 * smoothness ^ 2 * learning_rates 0%nat ^ 2 / (1 - beta1) ^ 2) in *.
  assert (main := scheduled_rate n_outcomes dim n_steps probability weights_nonnegative weights_sum preconditioner
    averaged_rates beta1 (p_max * smoothness) (p_max * (noise ^ 2 / INR n_workers)) (p_max * error_bound ^ 2) 1
    (p_max * (noise ^ 2 / INR n_workers)) lowest c preconditioner_nonnegative beta1_domain
    (Rlt_le _ _ (Rmult_lt_0_compat _ _ p_max_domain smoothness_domain))
    ltac:(intros t steps; specialize (between t steps); lra)
    ltac:(intros t steps; rewrite <- Nat.add_1_r; apply falls, steps)
    params virtual_iterate momentum total_error mean_grad mean_grad objective gradient).
  specialize (main ltac:(intros t w k steps inside coord; rewrite virtual_point by (assumption || lia); field; lra)).
  specialize (main ltac:(intros t w k steps inside coord; rewrite <- Nat.add_1_r; apply conservation; assumption)).
  assert (moved : forall t w k, (t < n_steps)%nat -> (w < n_outcomes)%nat -> (k < dim)%nat ->
    virtual_iterate (S t) w k = virtual_iterate t w k + preconditioner k * ((averaged_rates t - averaged_rates (S t))
      * (total_error (S t) w k / (1 - beta1)) - averaged_rates t * mean_grad t w k)).
  { intros t w k steps inside coord. rewrite <- Nat.add_1_r.
    rewrite (virtual_point (t + 1)%nat), (virtual_point t), step_taken by (assumption || lia).
    assert (residual := conservation t steps w inside k coord).
    replace (beta1 * momentum t w k + total_error t w k) with (momentum (t + 1)%nat w k + total_error (t + 1)%nat w k
      - (1 - beta1) * mean_grad t w k) by (rewrite residual; ring).
    replace (learning_rates t) with ((averaged_rates t - beta1 * averaged_rates (t + 1)%nat) / (1 - beta1))
      by (rewrite (averaged t steps); field; lra).
    field. lra. }
  specialize (main moved).
  specialize (main (weighted_descent dim preconditioner p_max smoothness objective gradient range smoothness_domain
    descent_inequality)).
  specialize (main (weighted_lipschitz dim preconditioner p_max smoothness gradient range p_max_domain lipschitz_gradient)).
  specialize (main bounded_below known_x known_y noisy).
  assert (small : forall t, (t <= n_steps)%nat -> expect n_outcomes probability
    (fun w => bigsum dim (fun k => preconditioner k * total_error t w k ^ 2)) <= p_max * error_bound ^ 2)
    by (intros t steps; apply (expect_weighted_once _ _ _ _ _ _ _ weights_nonnegative range (Rlt_le _ _ p_max_domain)
      (error_bounded t ltac:(lia)))).
  specialize (main (fun t steps => small t (Nat.lt_le_incl _ _ steps))).
  specialize (main ltac:(intros t steps; specialize (falls t steps); rewrite Nat.add_1_r in falls;
    apply Rmult_le_compat_l; [lra|apply small, steps])).
  specialize (main ltac:(intros t steps; rewrite Rmult_1_l;
    apply (weighted_second_moment n_outcomes dim probability preconditioner _ (fun w => gradient (params t w)) (mean_grad t)
      (fun k coord => known_x t k steps coord) (noisy t steps)))).
  assert (room : forall t, (t < n_steps)%nat -> c <= 1 - p_max * smoothness * (averaged_rates t
    + (averaged_rates t - averaged_rates (S t))) - 2 * 1 * beta1 ^ 2 * (p_max * smoothness) ^ 2 * averaged_rates t ^ 2 / (1 - beta1) ^ 2).
  { intros t steps. assert (now := between t ltac:(lia)). assert (next := between (S t) ltac:(lia)).
    assert (top := first t ltac:(lia)).
    assert (first_order : p_max * smoothness * (averaged_rates t + (averaged_rates t - averaged_rates (S t)))
      <= p_max * smoothness * (2 * learning_rates 0%nat - learning_rates n_steps))
      by (apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|lra]).
    assert (second_order : beta1 ^ 2 * (p_max * smoothness) ^ 2 * / (1 - beta1) ^ 2 * averaged_rates t ^ 2
      <= beta1 ^ 2 * (p_max * smoothness) ^ 2 * / (1 - beta1) ^ 2 * learning_rates 0%nat ^ 2).
    { apply Rmult_le_compat_l; [|apply pow_incr; lra].
      apply Rmult_le_pos; [apply Rmult_le_pos; apply pow2_ge_0|apply Rlt_le, Rinv_0_lt_compat, pow_lt; lra]. }
    unfold c. clear - first_order second_order. unfold Rdiv in *. rewrite Rpow_mult_distr in *. lra. }
  specialize (main room).
  assert (start : expect n_outcomes probability (fun w => bigsum dim (fun k => preconditioner k * momentum 0%nat w k ^ 2))
    <= p_max * start_momentum ^ 2)
    by (apply (expect_weighted_once _ _ _ _ _ _ _ weights_nonnegative range (Rlt_le _ _ p_max_domain) momentum_at_start)).
  assert (begin : expect n_outcomes probability (fun w => objective (virtual_iterate 0%nat w)) - lowest <= start_gap).
  { eapply Rle_trans; [|exact gap_at_start]. apply Req_le. unfold expect. f_equal. apply bigsum_ext. intros; ring. }
  assert (all : 0 < bigsum n_steps averaged_rates).
  { eapply Rlt_le_trans; [|apply (bigsum_term n_steps averaged_rates 0)].
    - specialize (between 0%nat ltac:(lia)). lra.
    - intros t steps. specialize (between t ltac:(lia)). lra.
    - lia. }
  change (bigsum n_steps (fun step => averaged_rates step)) with (bigsum n_steps averaged_rates).
  apply Rmult_le_reg_l with (c * bigsum n_steps averaged_rates); [apply Rmult_lt_0_compat; assumption|].
  match goal with |- _ * (bigsum n_steps ?body / ?sum) <= _ =>
    replace (c * sum * (bigsum n_steps body / sum)) with (c * bigsum n_steps body) by (field; lra);
    replace (bigsum n_steps body) with (bigsum n_steps (fun t => averaged_rates t * expect n_outcomes probability
      (fun w => bigsum dim (fun k => preconditioner k * gradient (params t w) k ^ 2)))) end.
  2:{ apply bigsum_ext. intros t _. f_equal. unfold expect. apply bigsum_ext. intros w _. f_equal.
      apply bigsum_ext. intros; ring. }
  match goal with |- _ <= ?a * ?b * (?num / (?a * ?b)) => replace (a * b * (num / (a * b))) with num by (field; split; lra) end.
  eapply Rle_trans; [exact main|].
  eapply Rle_trans.
  { apply Rplus_le_compat_r. apply Rplus_le_compat; [apply Rmult_le_compat_l; [lra|exact begin]|].
    apply Rmult_le_compat_l; [|exact start].
    apply Rmult_le_pos; [lra|]. apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat, pow_lt; lra].
    specialize (between 0%nat ltac:(lia)).
    repeat apply Rmult_le_pos; try apply pow2_ge_0; try apply pow_le; lra. }
  match goal with |- ?a + bigsum _ ?f <= _ => rewrite (bigsum_ext n_steps f (fun step =>
    (p_max * smoothness * (p_max * (noise ^ 2 / INR n_workers))) * ((2 * averaged_rates step - averaged_rates (step + 1)%nat) * averaged_rates step)
    + (2 * (p_max * smoothness) ^ 2 * (p_max * error_bound ^ 2 + beta1 ^ 2 * (p_max * (noise ^ 2 / INR n_workers))) / (1 - beta1) ^ 2)
      * averaged_rates step ^ 3
    + p_max * error_bound ^ 2 / (1 - beta1) ^ 2 * (((averaged_rates step - averaged_rates (step + 1)%nat) / averaged_rates step
      + p_max * smoothness * (2 * averaged_rates step - averaged_rates (step + 1)%nat))
      * (averaged_rates step - averaged_rates (step + 1)%nat)))) end.
  2:{ intros t steps. rewrite Nat.add_1_r. specialize (between t ltac:(lia)). field. repeat split; lra. }
  rewrite !bigsum_plus, !bigsum_scal. apply Req_le. field. split; lra.
Qed.
