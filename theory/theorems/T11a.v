(* By induction: after k factors the product lies between 1 - k u and 1/(1 - k u). *)
From Onebit Require Import Prelude.

Theorem T11a :
  forall (unit_roundoff : R) (factors : nat -> R) (partial_product : nat -> R) (n_factors : nat),
  forall (unit_roundoff_domain : 0 < unit_roundoff /\ unit_roundoff < 1),
  forall (start : (partial_product 0%nat) = 1),
  forall (running : forall k : nat, (k < n_factors)%nat -> (partial_product (k + 1)%nat) = ((factors k) * (partial_product k))),
  forall (lower : forall k : nat, (k < n_factors)%nat -> (1 - unit_roundoff) <= (factors k)),
  forall (upper : forall k : nat, (k < n_factors)%nat -> (factors k) <= (/ (1 - unit_roundoff))),
  forall (few : ((INR n_factors) * unit_roundoff) < 1),
  (Rabs ((partial_product n_factors) - 1)) <= (((INR n_factors) * unit_roundoff) / (1 - ((INR n_factors) * unit_roundoff))).
Proof.
  intros unit_roundoff factors partial_product n_factors unit_roundoff_domain start running lower upper few.
  assert (between : forall k, (k <= n_factors)%nat ->
    1 - INR k * unit_roundoff <= partial_product k /\ partial_product k * (1 - INR k * unit_roundoff) <= 1).
  { induction k as [|k IH]; intros le.
    - rewrite start. simpl. lra.
    - destruct (IH ltac:(lia)) as [below above].
      assert (next : partial_product (S k) = partial_product k * factors k).
      { replace (S k) with (k + 1)%nat by lia. rewrite running by lia. ring. }
      assert (low := lower k ltac:(lia)). assert (high := upper k ltac:(lia)).
      assert (scaled : factors k * (1 - unit_roundoff) <= 1).
      { apply (Rmult_le_compat_r (1 - unit_roundoff)) in high; [|lra].
        replace (/ (1 - unit_roundoff) * (1 - unit_roundoff)) with 1 in high by (field; lra). exact high. }
      assert (room : INR (S k) * unit_roundoff < 1).
      { apply le_INR in le. apply Rle_lt_trans with (INR n_factors * unit_roundoff); [|lra]. nra. }
      rewrite S_INR in *. assert (P := pos_INR k). rewrite next. split.
      + assert (0 <= 1 - INR k * unit_roundoff) by nra. nra.
      + assert (0 <= partial_product k) by nra. assert (0 <= factors k) by nra.
        assert ((1 - (INR k + 1) * unit_roundoff) <= (1 - INR k * unit_roundoff) * (1 - unit_roundoff)) by nra.
        assert (0 <= partial_product k * factors k) by nra.
        apply Rle_trans with (partial_product k * factors k * ((1 - INR k * unit_roundoff) * (1 - unit_roundoff)));
          [apply Rmult_le_compat_l; lra|].
        replace (partial_product k * factors k * ((1 - INR k * unit_roundoff) * (1 - unit_roundoff)))
          with ((partial_product k * (1 - INR k * unit_roundoff)) * (factors k * (1 - unit_roundoff))) by ring.
        assert (0 <= partial_product k * (1 - INR k * unit_roundoff)) by nra. nra. }
  destruct (between n_factors (le_n _)) as [below above]. assert (P := pos_INR n_factors).
  set (w := INR n_factors * unit_roundoff) in *. assert (0 <= w) by (unfold w; nra).
  assert (scale : w / (1 - w) * (1 - w) = w) by (field; lra).
  apply Rabs_le. split.
  - assert (w <= w / (1 - w)) by (apply Rmult_le_reg_r with (1 - w); [lra | rewrite scale; nra]). lra.
  - apply Rmult_le_reg_r with (1 - w); [lra|]. rewrite scale. lra.
Qed.
