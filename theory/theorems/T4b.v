(* The average of c at coordinate l is close to g (T2c); its square is at most v (Jensen), which all share (T4e). *)
From Onebit Require Import Prelude. From Onebit Require T2c T4e.

Theorem T4b :
  forall (live : nat) (step : nat) (k : nat) (variance : nat -> nat -> R) (total_error : nat -> nat -> R) (server_scale : nat -> R) (beta2 : R) (error_bound : R) (decoded : nat -> nat -> R) (constant_grads : nat -> R) (largest_grad : R) (l : nat),
  forall (live_domain : (1 <= live)%nat),
  forall (beta2_domain : 0 < beta2 /\ beta2 < 1),
  forall (error_bound_domain : 0 <= error_bound),
  forall (largest_grad_domain : 0 <= largest_grad),
  forall (k_in_chunk : (k < live)%nat),
  forall (l_in_chunk : (l < live)%nat),
  forall (one_bit : forall s : nat, forall j : nat, (j < live)%nat -> (Rabs (decoded (s + 1)%nat j)) = (server_scale (s + 1)%nat)),
  forall (variance_start : forall j : nat, (j < live)%nat -> (variance 0%nat j) = 0),
  forall (variance_step : forall s : nat, forall j : nat, (j < live)%nat -> (variance (s + 1)%nat j) = ((beta2 * (variance s j)) + ((1 - beta2) * ((decoded (s + 1)%nat j) ^ 2)))),
  forall (feedback : forall s : nat, forall j : nat, (j < live)%nat -> (decoded (s + 1)%nat j) = ((constant_grads j) + (total_error s j) - (total_error (s + 1)%nat j))),
  forall (no_residual : forall j : nat, (j < live)%nat -> (total_error 0%nat j) = 0),
  forall (bounded : forall s : nat, forall j : nat, (j < live)%nat -> (Rabs (total_error s j)) <= error_bound),
  forall (large : largest_grad <= (Rabs (constant_grads l))),
  (variance (step + 1)%nat k) >= ((Rmax 0 ((largest_grad * (1 - (beta2 ^ (step + 1)%nat))) - (error_bound * (1 - beta2) * (2 - (beta2 ^ step))))) ^ 2).
Proof.
  intros live step k variance total_error server_scale beta2 error_bound decoded constant_grads largest_grad l
    live_domain beta2_domain error_bound_domain largest_grad_domain k_in_chunk l_in_chunk one_bit variance_start
    variance_step feedback no_residual bounded large.
  rewrite (T4e.T4e live (step + 1)%nat k variance server_scale beta2 decoded l live_domain beta2_domain k_in_chunk
    l_in_chunk one_bit variance_start variance_step).
  set (average := fix average (s : nat) : R :=
    match s with O => 0 | S r => beta2 * average r + (1 - beta2) * decoded (r + 1)%nat l end).
  assert (average_step : forall s, average (s + 1)%nat = beta2 * average s + (1 - beta2) * decoded (s + 1)%nat l).
  { intros s. replace (s + 1)%nat with (S s) at 1 by lia. reflexivity. }
  assert (jensen : forall s, average s ^ 2 <= variance s l).
  { induction s.
    - rewrite variance_start by assumption. cbn. lra.
    - replace (S s) with (s + 1)%nat by lia. rewrite average_step, variance_step by assumption.
      set (c := decoded (s + 1)%nat l). set (a := average s) in *.
      assert (0 <= beta2 * (1 - beta2) * (a - c) ^ 2) by (apply Rmult_le_pos; [nra | apply pow2_ge_0]).
      assert (beta2 * a ^ 2 <= beta2 * variance s l) by (apply Rmult_le_compat_l; [lra | exact IHs]).
      replace ((beta2 * a + (1 - beta2) * c) ^ 2)
        with (beta2 * a ^ 2 + (1 - beta2) * c ^ 2 - beta2 * (1 - beta2) * (a - c) ^ 2) by ring.
      lra. }
  assert (near : Rabs (constant_grads l * (1 - beta2 ^ (step + 1)) - average (step + 1)%nat)
    <= error_bound * (2 - beta2 ^ step) * Rabs (1 - beta2)).
  { apply (T2c.T2c step error_bound (fun s => constant_grads l * (1 - beta2 ^ s)) average (fun _ => constant_grads l)
      (fun s => decoded s l) (fun s => total_error s l) beta2 (1 - beta2) error_bound_domain beta2_domain).
    - apply no_residual. exact l_in_chunk.
    - cbn. ring.
    - intros s. rewrite feedback by exact l_in_chunk. ring.
    - intros s. rewrite pow_add, pow_1. ring.
    - exact average_step.
    - intros s. apply bounded. exact l_in_chunk. }
  rewrite (Rabs_right (1 - beta2)) in near by lra.
  apply Rle_ge. eapply Rle_trans; [|apply jensen]. rewrite <- (pow2_abs (average (step + 1)%nat)).
  assert (shrinks : 0 <= beta2 ^ (step + 1) <= 1).
  { split; [apply pow_le; lra|]. rewrite <- (pow1 (step + 1)). apply pow_incr. lra. }
  assert (size : largest_grad * (1 - beta2 ^ (step + 1)) <= Rabs (constant_grads l * (1 - beta2 ^ (step + 1)))).
  { rewrite Rabs_mult, (Rabs_right (1 - _)) by lra. apply Rmult_le_compat_r; lra. }
  pose proof (Rabs_triang_inv (constant_grads l * (1 - beta2 ^ (step + 1))) (average (step + 1)%nat)) as apart.
  apply pow_incr. split; [apply Rmax_l|]. apply Rmax_lub; [apply Rabs_pos|]. lra.
Qed.
