(* From momentum plus errors to the errors, in root mean squares. *)
From Onebit Require Import Prelude ErrorFeedback.

Theorem T5h :
  forall (n_workers : nat) (live : nat) (step : nat) (momentum : nat -> nat -> nat -> R) (worker_errors : nat -> nat -> nat -> nat -> R) (server_error : nat -> nat -> nat -> R) (corrected : nat -> nat -> nat -> nat -> R) (server_input : nat -> nat -> nat -> R) (messages : nat -> nat -> nat -> nat -> R) (beta1 : R) (contraction : R) (noise : R) (gradient_bound : R) (n_outcomes : nat) (probability : nat -> R) (signal : nat -> nat -> nat -> nat -> R) (noises : nat -> nat -> nat -> nat -> R) (heterogeneity : R),
  forall (n_workers_domain : (1 <= n_workers)%nat),
  forall (live_domain : (1 <= live)%nat),
  forall (beta1_domain : 0 < beta1 /\ beta1 < 1),
  forall (contraction_domain : 0 < contraction /\ contraction < 1),
  forall (noise_domain : 0 <= noise),
  forall (gradient_bound_domain : 0 <= gradient_bound),
  forall (n_outcomes_domain : (1 <= n_outcomes)%nat),
  forall (heterogeneity_domain : 0 <= heterogeneity),
  forall (weights_nonnegative : forall outcome : nat, (outcome < n_outcomes)%nat -> 0 <= (probability outcome)),
  forall (worker_input : forall step : nat, forall outcome : nat, (outcome < n_outcomes)%nat -> forall i : nat, (i < n_workers)%nat -> forall k : nat, (k < live)%nat -> (corrected (step + 1)%nat outcome i k) = ((beta1 * (momentum step outcome k)) + ((1 - beta1) * ((noises (step + 1)%nat outcome i k) + (signal (step + 1)%nat outcome i k))) + (worker_errors step outcome i k))),
  forall (worker_feedback : forall step : nat, forall outcome : nat, (outcome < n_outcomes)%nat -> forall i : nat, (i < n_workers)%nat -> forall k : nat, (k < live)%nat -> (worker_errors (step + 1)%nat outcome i k) = ((corrected (step + 1)%nat outcome i k) - (messages (step + 1)%nat outcome i k))),
  forall (server_input_is : forall step : nat, forall outcome : nat, (outcome < n_outcomes)%nat -> forall k : nat, (k < live)%nat -> (server_input (step + 1)%nat outcome k) = (((bigsum n_workers (fun i => (messages (step + 1)%nat outcome i k))) / (INR n_workers)) + (server_error step outcome k))),
  forall (server_feedback : forall step : nat, forall outcome : nat, (outcome < n_outcomes)%nat -> forall k : nat, (k < live)%nat -> (server_error (step + 1)%nat outcome k) = ((server_input (step + 1)%nat outcome k) - (momentum (step + 1)%nat outcome k))),
  forall (worker_contraction : forall step : nat, forall outcome : nat, (outcome < n_outcomes)%nat -> forall i : nat, (i < n_workers)%nat -> (bigsum live (fun k => ((worker_errors (step + 1)%nat outcome i k) ^ 2))) <= ((contraction ^ 2) * (bigsum live (fun k => ((corrected (step + 1)%nat outcome i k) ^ 2))))),
  forall (server_contraction : forall step : nat, forall outcome : nat, (outcome < n_outcomes)%nat -> (bigsum live (fun k => ((server_error (step + 1)%nat outcome k) ^ 2))) <= ((contraction ^ 2) * (bigsum live (fun k => ((server_input (step + 1)%nat outcome k) ^ 2))))),
  forall (signal_bounded : forall step : nat, (bigsum n_outcomes (fun outcome => (((probability outcome) * (bigsum n_workers (fun i => (bigsum live (fun k => ((signal (step + 1)%nat outcome i k) ^ 2)))))) / (INR n_workers)))) <= (gradient_bound ^ 2)),
  forall (noise_and_momentum : forall step : nat, forall i : nat, (i < n_workers)%nat -> forall k : nat, (k < live)%nat -> (bigsum n_outcomes (fun outcome => ((momentum step outcome k) * (noises (step + 1)%nat outcome i k) * (probability outcome)))) = 0),
  forall (noise_and_errors : forall step : nat, forall i : nat, (i < n_workers)%nat -> forall j : nat, (j < n_workers)%nat -> forall k : nat, (k < live)%nat -> (bigsum n_outcomes (fun outcome => ((noises (step + 1)%nat outcome i k) * (probability outcome) * (worker_errors step outcome j k)))) = 0),
  forall (noise_and_server : forall step : nat, forall i : nat, (i < n_workers)%nat -> forall k : nat, (k < live)%nat -> (bigsum n_outcomes (fun outcome => ((noises (step + 1)%nat outcome i k) * (probability outcome) * (server_error step outcome k)))) = 0),
  forall (noise_and_signal : forall step : nat, forall i : nat, (i < n_workers)%nat -> forall j : nat, (j < n_workers)%nat -> forall k : nat, (k < live)%nat -> (bigsum n_outcomes (fun outcome => ((noises (step + 1)%nat outcome i k) * (probability outcome) * (signal (step + 1)%nat outcome j k)))) = 0),
  forall (noise_across_workers : forall step : nat, forall i : nat, (i < n_workers)%nat -> forall j : nat, (j < n_workers)%nat -> forall k : nat, (k < live)%nat -> ((i <> j)%nat) -> (bigsum n_outcomes (fun outcome => ((noises (step + 1)%nat outcome i k) * (noises (step + 1)%nat outcome j k) * (probability outcome)))) = 0),
  forall (noise_variance : forall step : nat, forall i : nat, (i < n_workers)%nat -> (bigsum n_outcomes (fun outcome => ((probability outcome) * (bigsum live (fun k => ((noises (step + 1)%nat outcome i k) ^ 2)))))) <= (noise ^ 2)),
  forall (worker_start : forall outcome : nat, (outcome < n_outcomes)%nat -> forall i : nat, (i < n_workers)%nat -> forall k : nat, (k < live)%nat -> (worker_errors 0%nat outcome i k) = 0),
  forall (server_start : forall outcome : nat, (outcome < n_outcomes)%nat -> forall k : nat, (k < live)%nat -> (server_error 0%nat outcome k) = 0),
  forall (momentum_start : (bigsum n_outcomes (fun outcome => ((probability outcome) * (bigsum live (fun k => ((momentum 0%nat outcome k) ^ 2)))))) <= ((gradient_bound ^ 2) + (((noise ^ 2) * (1 - beta1)) / ((INR n_workers) * (1 + beta1))))),
  forall (heterogeneity_bounded : forall step : nat, (bigsum n_outcomes (fun outcome => (((probability outcome) * (bigsum n_workers (fun i => (bigsum live (fun k => (((noises (step + 1)%nat outcome i k) + (signal (step + 1)%nat outcome i k) - ((bigsum n_workers (fun j => ((noises (step + 1)%nat outcome j k) + (signal (step + 1)%nat outcome j k)))) / (INR n_workers))) ^ 2)))))) / (INR n_workers)))) <= (heterogeneity ^ 2)),
  (sqrt (bigsum n_outcomes (fun outcome => ((probability outcome) * (bigsum live (fun k => ((((bigsum n_workers (fun i => (worker_errors step outcome i k))) / (INR n_workers)) + (server_error step outcome k)) ^ 2))))))) <= ((contraction * (((contraction * ((heterogeneity * (1 - beta1)) + ((2 * noise * (sqrt (((1 - beta1) * ((/ (INR n_workers)) + ((contraction * (1 - beta1)) / beta1))) / ((1 - contraction) * (4 + (4 * contraction) - ((1 - beta1) * (1 - contraction) * (1 + beta1)))))) * (1 + contraction)) / (sqrt (1 + beta1))) + ((2 * gradient_bound * (sqrt (1 + ((contraction * (1 - beta1)) / beta1))) * (1 + contraction)) / ((1 - contraction) * (1 + beta1))))) / (1 - contraction)) + ((2 * noise * (sqrt (((1 - beta1) * ((/ (INR n_workers)) + ((contraction * (1 - beta1)) / beta1))) / ((1 - contraction) * (4 + (4 * contraction) - ((1 - beta1) * (1 - contraction) * (1 + beta1)))))) * (1 + contraction)) / (sqrt (1 + beta1))) + ((2 * gradient_bound * (sqrt (1 + ((contraction * (1 - beta1)) / beta1))) * (1 + contraction)) / ((1 - contraction) * (1 + beta1))))) + ((contraction * ((heterogeneity * (1 - beta1)) + ((2 * noise * (sqrt (((1 - beta1) * ((/ (INR n_workers)) + ((contraction * (1 - beta1)) / beta1))) / ((1 - contraction) * (4 + (4 * contraction) - ((1 - beta1) * (1 - contraction) * (1 + beta1)))))) * (1 + contraction)) / (sqrt (1 + beta1))) + ((2 * gradient_bound * (sqrt (1 + ((contraction * (1 - beta1)) / beta1))) * (1 + contraction)) / ((1 - contraction) * (1 + beta1))))) / (1 - contraction))).
Proof.
  intros n_workers live step momentum worker_errors server_error corrected server_input messages beta1
    contraction noise gradient_bound n_outcomes probability signal noises heterogeneity n_workers_domain
    live_domain beta1_domain contraction_domain noise_domain gradient_bound_domain n_outcomes_domain
    heterogeneity_domain weights_nonnegative worker_input worker_feedback server_input_is server_feedback
    worker_contraction server_contraction signal_bounded noise_and_momentum noise_and_errors noise_and_server
    noise_and_signal noise_across_workers noise_variance worker_start server_start momentum_start
    heterogeneity_bounded.
  assert (orthogonal : forall t,
    (forall i, (i < n_workers)%nat -> forall k, (k < live)%nat ->
      bigsum n_outcomes (fun o => probability o * (momentum t o k * noises (t + 1)%nat o i k)) = 0) /\
    (forall i j, (i < n_workers)%nat -> (j < n_workers)%nat -> forall k, (k < live)%nat ->
      bigsum n_outcomes (fun o => probability o * (worker_errors t o j k * noises (t + 1)%nat o i k)) = 0) /\
    (forall i, (i < n_workers)%nat -> forall k, (k < live)%nat ->
      bigsum n_outcomes (fun o => probability o * (server_error t o k * noises (t + 1)%nat o i k)) = 0) /\
    (forall i j, (i < n_workers)%nat -> (j < n_workers)%nat -> forall k, (k < live)%nat ->
      bigsum n_outcomes (fun o => probability o * (signal (t + 1)%nat o j k * noises (t + 1)%nat o i k)) = 0) /\
    (forall i j, (i < n_workers)%nat -> (j < n_workers)%nat -> i <> j -> forall k, (k < live)%nat ->
      bigsum n_outcomes (fun o => probability o * (noises (t + 1)%nat o i k * noises (t + 1)%nat o j k)) = 0)).
  { intros t. repeat split; intros.
    - rewrite <- (noise_and_momentum t i H k H0). apply bigsum_ext. intros. ring.
    - rewrite <- (noise_and_errors t i H j H0 k H1). apply bigsum_ext. intros. ring.
    - rewrite <- (noise_and_server t i H k H0). apply bigsum_ext. intros. ring.
    - rewrite <- (noise_and_signal t i H j H0 k H1). apply bigsum_ext. intros. ring.
    - rewrite <- (noise_across_workers t i H j H0 k H2 H1). apply bigsum_ext. intros. ring. }
  assert (average : forall f : nat -> nat -> nat -> R,
    expected n_outcomes live probability (fun o k => avg n_workers (fun i => f o i k))
    = bigsum n_outcomes (fun o => probability o * bigsum n_workers (fun i => bigsum live (fun k => f o i k)) / INR n_workers)).
  { intros f. unfold expected. apply bigsum_ext. intros o _. unfold avg, Rdiv. rewrite bigsum_scal_r, bigsum_swap. ring. }
  pose proof (noise_bound_nonneg n_workers beta1 contraction noise) as noise_part_nonneg.
  pose proof (virtual_bound_ge beta1 contraction gradient_bound beta1_domain contraction_domain gradient_bound_domain)
    as signal_part_large.
  assert (noise_part : 2 * noise * sqrt ((1 - beta1) * (/ INR n_workers + contraction * (1 - beta1) / beta1)
      / ((1 - contraction) * (4 + 4 * contraction - (1 - beta1) * (1 - contraction) * (1 + beta1)))) * (1 + contraction)
      / sqrt (1 + beta1) = noise_bound n_workers beta1 contraction noise).
  { assert (workers : 0 < / INR n_workers) by (apply Rinv_0_lt_compat, lt_0_INR; lia).
    assert (room : 0 < 4 + 4 * contraction - (1 - beta1) * (1 - contraction) * (1 + beta1)) by nra.
    assert (share : 0 <= (1 - beta1) * (/ INR n_workers + contraction * (1 - beta1) / beta1)).
    { apply Rmult_le_pos; [lra|]. assert (0 <= contraction * (1 - beta1) / beta1)
        by (apply div_nonneg; [apply Rmult_le_pos; lra | lra]). lra. }
    assert (root : 0 < sqrt (1 + beta1)) by (apply sqrt_lt_R0; lra).
    match goal with |- ?lhs = _ => rewrite <- (sqrt_pow2 lhs) end.
    - unfold noise_bound. f_equal. unfold rate.
      match goal with |- context [_ * sqrt ?A * (1 + contraction)] =>
        assert (inner : sqrt A * sqrt A = A) by (apply sqrt_sqrt; apply div_nonneg;
          [exact share | apply Rmult_lt_0_compat; lra]); set (a := sqrt A) in * end.
      assert (outer : sqrt (1 + beta1) * sqrt (1 + beta1) = 1 + beta1) by (apply sqrt_sqrt; lra).
      set (c := sqrt (1 + beta1)) in *.
      replace ((2 * noise * a * (1 + contraction) / c) ^ 2)
        with (4 * noise ^ 2 * (a * a) * (1 + contraction) ^ 2 / (c * c)) by (field; lra).
      rewrite inner, outer. field. pose proof (lt_0_INR n_workers n_workers_domain). repeat split; nra.
    - apply div_nonneg; [|exact root]. repeat apply Rmult_le_pos; try lra. apply sqrt_pos. }
  assert (below : expected n_outcomes live probability
      (fun o k => (avg n_workers (fun i => worker_errors step o i k) + server_error step o k) ^ 2)
    <= (worker_bound n_workers beta1 contraction gradient_bound heterogeneity noise
      + contraction * (virtual_bound beta1 contraction gradient_bound + noise_bound n_workers beta1 contraction noise
        + worker_bound n_workers beta1 contraction gradient_bound heterogeneity noise)) ^ 2)
    by (apply (residual_errors n_outcomes n_workers live probability beta1 contraction gradient_bound heterogeneity noise
      (fun o t => momentum t o) (fun o t => server_error t o) (fun o t => server_input t o)
      (fun o t => worker_errors t o) (fun o t => corrected t o) (fun o t => messages t o) (fun o t => signal t o)
      (fun o t => noises t o)); cbv beta; auto; intros;
      [ rewrite worker_input by assumption; ring
      | apply server_input_is; assumption
      | rewrite (average (fun o i k => signal (t + 1)%nat o i k ^ 2)); apply signal_bounded
      | apply noise_mean_zero; try exact n_workers_domain; apply orthogonal
      | apply noise_each_zero; try exact n_workers_domain; apply orthogonal
      | apply noise_mean_small; [exact n_workers_domain | apply orthogonal | apply noise_variance]
      | apply noise_each_small; [exact n_workers_domain | apply noise_variance]
      | rewrite (average (fun o i k => (signal (t + 1)%nat o i k + noises (t + 1)%nat o i k
          - (avg n_workers (fun j => signal (t + 1)%nat o j k) + avg n_workers (fun j => noises (t + 1)%nat o j k))) ^ 2));
        eapply Rle_trans; [apply Req_le | apply (heterogeneity_bounded t)]; apply bigsum_ext; intros o _;
        f_equal; f_equal; apply bigsum_ext; intros i _; apply bigsum_ext; intros k _; unfold avg;
        rewrite bigsum_plus; f_equal; field; apply not_0_INR; lia
      | eapply Rle_trans; [exact momentum_start | apply Req_le; field; pose proof (lt_0_INR n_workers n_workers_domain); repeat split; lra]]).
  fold (virtual_bound beta1 contraction gradient_bound). rewrite noise_part.
  pose proof (worker_bound_nonneg n_workers beta1 contraction gradient_bound heterogeneity noise beta1_domain
    contraction_domain gradient_bound_domain heterogeneity_domain) as nonneg.
  apply Rle_trans with (worker_bound n_workers beta1 contraction gradient_bound heterogeneity noise
      + contraction * (virtual_bound beta1 contraction gradient_bound + noise_bound n_workers beta1 contraction noise
        + worker_bound n_workers beta1 contraction gradient_bound heterogeneity noise)).
  - apply root_below.
    + assert (0 <= contraction * (virtual_bound beta1 contraction gradient_bound + noise_bound n_workers beta1 contraction noise
        + worker_bound n_workers beta1 contraction gradient_bound heterogeneity noise)) by (apply Rmult_le_pos; lra). lra.
    + exact below.
  - apply Req_le. unfold worker_bound. field. lra.
Qed.
