(* L1 summed over time: the messages add up to the gradients, but for the residual. *)
From Onebit Require Import Prelude.

Theorem T7n :
  forall (n_steps : nat) (momentum : nat -> R) (total_error : nat -> R) (scale : nat -> R) (beta1 : R) (signal : nat -> R) (mean_gradient : R) (at_start : R) (at_end : R),
  forall (n_steps_domain : (1 <= n_steps)%nat),
  forall (beta1_domain : 0 < beta1 /\ beta1 < 1),
  forall (conserved : forall s : nat, ((momentum (s + 1)%nat) + (total_error (s + 1)%nat)) = ((beta1 * (momentum s)) + ((1 - beta1) * (signal s)) + (total_error s))),
  forall (one_magnitude : forall s : nat, (Rabs (momentum (s + 1)%nat)) <= (scale s)),
  forall (mean_over_time : (mean_gradient * (INR n_steps)) = (bigsum n_steps (fun s => (signal s)))),
  forall (residual_start : at_start = ((beta1 * (momentum 0%nat)) + (total_error 0%nat))),
  forall (residual_end : at_end = ((beta1 * (momentum n_steps)) + (total_error n_steps))),
  ((bigsum n_steps (fun s => (scale s))) / (INR n_steps)) >= ((Rabs mean_gradient) - ((Rabs (at_end - at_start)) / ((INR n_steps) * (1 - beta1)))).
Proof.
  intros n_steps momentum total_error scale beta1 signal mean_gradient at_start at_end n_steps_domain beta1_domain
    conserved one_magnitude mean_over_time residual_start residual_end.
  assert (T : 0 < INR n_steps) by (apply lt_0_INR; lia). set (b := 1 - beta1). assert (B : 0 < b) by (unfold b; lra).
  assert (summed : forall n, beta1 * momentum n + total_error n
    = at_start + b * (bigsum n signal - bigsum n (fun s => momentum (s + 1)%nat))).
  { induction n; [simpl; rewrite residual_start; ring|]. simpl bigsum. assert (H := conserved n).
    replace (n + 1)%nat with (S n) in * by lia. unfold b in *. lra. }
  assert (sent : Rabs (bigsum n_steps (fun s => momentum (s + 1)%nat)) <= bigsum n_steps scale).
  { apply (Rle_trans _ _ _ (bigsum_abs _ _)). apply bigsum_le. intros s _. apply one_magnitude. }
  set (messages := bigsum n_steps (fun s => momentum (s + 1)%nat)) in *.
  assert (all : mean_gradient * INR n_steps = messages + (at_end - at_start) / b).
  { assert (H := summed n_steps). rewrite <- residual_end in H. fold messages in H. rewrite mean_over_time, H.
    change (fun s => signal s) with signal. field. lra. }
  apply Rle_ge. apply (Rmult_le_reg_r (INR n_steps)); [exact T|].
  replace (bigsum n_steps (fun s => scale s) / INR n_steps * INR n_steps) with (bigsum n_steps scale)
    by (change (fun s => scale s) with scale; field; lra).
  replace ((Rabs mean_gradient - Rabs (at_end - at_start) / (INR n_steps * b)) * INR n_steps)
    with (Rabs mean_gradient * INR n_steps - Rabs (at_end - at_start) / b) by (field; lra).
  rewrite <- (Rabs_right (INR n_steps)) at 1 by lra. rewrite <- Rabs_mult, all.
  assert (triangle := Rabs_triang messages ((at_end - at_start) / b)).
  unfold Rdiv in triangle at 2. rewrite Rabs_mult, (Rabs_right (/ b)) in triangle
    by (left; apply Rinv_0_lt_compat; exact B). unfold Rdiv. lra.
Qed.
