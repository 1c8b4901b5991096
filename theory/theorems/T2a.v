(* Induction over the steps: z* - z is again B e plus a remainder. *)
From Onebit Require Import Prelude.

Theorem T2a :
  forall (step : nat) (k : nat) (state_dim : nat) (input_dim : nat) (exact_state : nat -> nat -> R) (state : nat -> nat -> R) (remainder : nat -> nat -> R) (state_map : nat -> nat -> nat -> R) (input_map : nat -> nat -> nat -> R) (inputs : nat -> nat -> R) (decoded : nat -> nat -> R) (residual : nat -> nat -> R),
  forall (state_dim_domain : (1 <= state_dim)%nat),
  forall (input_dim_domain : (1 <= input_dim)%nat),
  forall (coordinate : (k < state_dim)%nat),
  forall (no_residual : forall i : nat, (i < input_dim)%nat -> (residual 0%nat i) = 0),
  forall (same_start : forall row : nat, (row < state_dim)%nat -> (exact_state 0%nat row) = (state 0%nat row)),
  forall (feedback : forall s : nat, forall i : nat, (i < input_dim)%nat -> (residual (s + 1)%nat i) = ((inputs (s + 1)%nat i) + (residual s i) - (decoded (s + 1)%nat i))),
  forall (exact_step : forall s : nat, forall row : nat, (row < state_dim)%nat -> (exact_state (s + 1)%nat row) = ((bigsum state_dim (fun j => ((exact_state s j) * (state_map (s + 1)%nat row j)))) + (bigsum input_dim (fun i => ((input_map (s + 1)%nat row i) * (inputs (s + 1)%nat i)))))),
  forall (compressed_step : forall s : nat, forall row : nat, (row < state_dim)%nat -> (state (s + 1)%nat row) = ((bigsum input_dim (fun i => ((decoded (s + 1)%nat i) * (input_map (s + 1)%nat row i)))) + (bigsum state_dim (fun j => ((state s j) * (state_map (s + 1)%nat row j)))))),
  forall (remainder_start : forall row : nat, (row < state_dim)%nat -> (remainder 0%nat row) = 0),
  forall (remainder_step : forall s : nat, forall row : nat, (row < state_dim)%nat -> (remainder (s + 1)%nat row) = ((bigsum input_dim (fun i => (((bigsum state_dim (fun j => ((input_map s j i) * (state_map (s + 1)%nat row j)))) - (input_map (s + 1)%nat row i)) * (residual s i)))) + (bigsum state_dim (fun j => ((remainder s j) * (state_map (s + 1)%nat row j)))))),
  ((exact_state step k) - (state step k)) = ((remainder step k) + (bigsum input_dim (fun i => ((input_map step k i) * (residual step i))))).
Proof.
  intros step k state_dim input_dim exact_state state remainder state_map input_map inputs decoded residual
    state_dim_domain input_dim_domain coordinate no_residual same_start feedback exact_step compressed_step
    remainder_start remainder_step.
  revert k coordinate. induction step; intros k coordinate.
  - rewrite same_start, remainder_start by exact coordinate.
    rewrite (bigsum_ext input_dim _ (fun _ => 0)) by (intros i below; rewrite no_residual by exact below; ring).
    rewrite bigsum_const. ring.
  - replace (S step) with (step + 1)%nat by lia.
    rewrite exact_step, compressed_step, remainder_step by exact coordinate.
    set (A := fun j => state_map (step + 1)%nat k j). set (B := fun i => input_map (step + 1)%nat k i).
    assert (states : bigsum state_dim (fun j => exact_state step j * A j)
      = bigsum state_dim (fun j => state step j * A j) + bigsum state_dim (fun j => remainder step j * A j)
        + bigsum input_dim (fun i => bigsum state_dim (fun j => input_map step j i * A j) * residual step i)).
    { transitivity (bigsum state_dim (fun j => state step j * A j + remainder step j * A j
        + bigsum input_dim (fun i => input_map step j i * A j * residual step i))).
      - apply bigsum_ext. intros j below. specialize (IHstep j below).
        replace (bigsum input_dim (fun i => input_map step j i * A j * residual step i))
          with (A j * bigsum input_dim (fun i => input_map step j i * residual step i))
          by (rewrite <- bigsum_scal; apply bigsum_ext; intros; ring).
        replace (exact_state step j) with (state step j + (remainder step j
          + bigsum input_dim (fun i => input_map step j i * residual step i))) by lra.
        ring.
      - rewrite !bigsum_plus. f_equal. rewrite bigsum_swap. apply bigsum_ext. intros i _.
        rewrite <- bigsum_scal_r. reflexivity. }
    assert (sent : bigsum input_dim (fun i => B i * inputs (step + 1)%nat i)
      = bigsum input_dim (fun i => decoded (step + 1)%nat i * B i)
        + bigsum input_dim (fun i => B i * residual (step + 1)%nat i) - bigsum input_dim (fun i => B i * residual step i)).
    { rewrite <- bigsum_plus, <- bigsum_minus. apply bigsum_ext. intros i below. rewrite feedback by exact below. ring. }
    assert (driven : bigsum input_dim
        (fun i => (bigsum state_dim (fun j => input_map step j i * A j) - B i) * residual step i)
      = bigsum input_dim (fun i => bigsum state_dim (fun j => input_map step j i * A j) * residual step i)
        - bigsum input_dim (fun i => B i * residual step i)).
    { rewrite <- bigsum_minus. apply bigsum_ext. intros. ring. }
    unfold A, B in *. lra.
Qed.
