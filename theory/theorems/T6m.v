(* One unit step from the minimiser: there the gap is positive, and the two hypotheses bound it by the gradient. *)
From Onebit Require Import Signs.

Theorem T6m :
  forall (dim : nat) (smoothness : R) (objective : (nat -> R) -> R) (gradient : (nat -> R) -> nat -> R) (lowest : R) (pl_constant : R) (minimiser : nat -> R),
  forall (dim_domain : (1 <= dim)%nat),
  forall (smoothness_domain : 0 < smoothness),
  forall (pl_constant_domain : 0 < pl_constant),
  forall (strongly_convex : forall point : nat -> R, (((pl_constant * (bigsum dim (fun k => (((point k) - (minimiser k)) ^ 2)))) / 2) + (objective point) - lowest) <= (bigsum dim (fun k => (((point k) - (minimiser k)) * ((gradient point) k))))),
  forall (gradient_small : forall point : nat -> R, (bigsum dim (fun k => (((gradient point) k) ^ 2))) <= (2 * smoothness * ((objective point) - lowest))),
  pl_constant <= smoothness.
Proof.
  intros dim smoothness objective gradient lowest pl_constant minimiser dim_domain smoothness_domain pl_constant_domain
    strongly_convex gradient_small.
  set (away := fun k => minimiser k + (if Nat.eq_dec k 0 then 1 else 0)).
  assert (apart : forall k, away k - minimiser k = if Nat.eq_dec k 0 then 1 else 0) by (intros; unfold away; ring).
  specialize (strongly_convex away). specialize (gradient_small away).
  set (gap := objective away - lowest) in *. set (slope := gradient away) in *.
  assert (first : forall f : nat -> R, bigsum dim (fun k => (away k - minimiser k) * f k) = f 0%nat).
  { intros f. rewrite (bigsum_single dim _ 0%nat) by (lia || (intros l _ other; rewrite apart;
      destruct (Nat.eq_dec l 0); [contradiction | ring])).
    rewrite apart. destruct (Nat.eq_dec 0 0); [ring | contradiction]. }
  rewrite (bigsum_ext dim (fun k => (away k - minimiser k) ^ 2) (fun k => (away k - minimiser k) * (away k - minimiser k)))
    in strongly_convex by (intros; ring).
  rewrite !first in strongly_convex. rewrite apart in strongly_convex.
  destruct (Nat.eq_dec 0 0) as [_|never]; [|contradiction].
  assert (part : slope 0%nat ^ 2 <= bigsum dim (fun k => slope k ^ 2))
    by (apply (bigsum_term dim (fun k => slope k ^ 2)); [intros; apply pow2_ge_0 | lia]).
  assert (gap_nonnegative : 0 <= gap) by (pose proof (pow2_ge_0 (slope 0%nat)); nra).
  assert (below : (gap + pl_constant / 2) ^ 2 <= slope 0%nat ^ 2) by (apply pow_incr; unfold gap in *; lra).
  assert (gap_positive : 0 < gap) by nra.
  apply Rmult_le_reg_l with (2 * gap); [lra|].
  pose proof (pow2_ge_0 (gap - pl_constant / 2)). nra.
Qed.
