(* The error of any order of evaluation, each magnitude with one product, what the stored 1/d is off, and the storage. *)
From Onebit Require Import Prelude Rounding.

Theorem T11n :
  forall (live : nat) (precision : nat) (least : nat) (order : tree) (inputs : nat -> R) (stored_precision : nat) (stored_least : nat) (depth : nat) (vector : nat -> R) (used : nat -> R) (tolerances : nat -> R) (weights : nat -> R),
  forall (live_domain : (1 <= live)%nat),
  forall (precision_domain : (1 <= precision)%nat),
  forall (stored_precision_domain : (1 <= stored_precision)%nat),
  forall (in_format : forall k : nat, (k < live)%nat -> (fl precision least (used k)) = (used k)),
  forall (magnitudes : forall k : nat, (k < live)%nat -> (inputs k) = (Rabs (used k))),
  forall (near : forall k : nat, (k < live)%nat -> (Rabs ((used k) - (vector k))) <= (tolerances k)),
  forall (read_once : forall x : nat -> R, (reads order x) = (bigsum live (fun k => (x k)))),
  forall (evaluates : forall x : nat -> R, (exact order x) = (bigsum live (fun k => ((weights k) * (x k))))),
  forall (paths : forall k : nat, (k < live)%nat -> (roundings order k) <= (1 + (INR depth))),
  forall (one_product : forall k : nat, (k < live)%nat -> (products order k) <= 1),
  forall (weights_stored : forall k : nat, (k < live)%nat -> (Rabs ((weights k) - (/ (INR live)))) <= ((gamma 2%nat precision) / (INR live))),
  forall (few : ((3 + (INR depth)) * (unit_roundoff precision)) < 1),
  (Rabs ((fl stored_precision stored_least (computed precision least order inputs)) - ((bigsum live (fun k => (Rabs (vector k)))) / (INR live)))) <= (((bigsum live (fun k => (tolerances k))) / (INR live)) + ((((bigsum live (fun k => (Rabs (vector k)))) / (INR live)) + ((bigsum live (fun k => (tolerances k))) / (INR live))) * (((gamma (depth + 3)%nat precision) * (unit_roundoff stored_precision)) + (gamma (depth + 3)%nat precision) + (unit_roundoff stored_precision))) + ((nonzero (((bigsum live (fun k => (Rabs (vector k)))) / (INR live)) + ((bigsum live (fun k => (tolerances k))) / (INR live)))) * (smallest_subnormal stored_least)) + ((1 + (gamma (depth + 3)%nat precision)) * (smallest_subnormal least) * (bigsum live (fun k => (nonzero ((Rabs (vector k)) + (tolerances k))))))).
Proof.
  intros.
  assert (U := u_positive precision). assert (E := eta_positive least).
  assert (V := u_positive stored_precision). assert (F := eta_positive stored_least).
  assert (half := u_half stored_precision stored_precision_domain).
  set (u := unit_roundoff precision) in *. set (eta := smallest_subnormal least) in *.
  set (loose := fun k => if Nat.ltb k live then 0 else 1).
  assert (form : forall k, (k < live)%nat -> fl precision least (inputs k) = inputs k).
  { intros k le. rewrite (magnitudes k le). apply fl_magnitude. apply (in_format k le). }
  assert (loosely : forall k, loose k = 1 \/ loose k = 0 /\ fl precision least (inputs k) = inputs k).
  { intros k. unfold loose. destruct (Nat.ltb_spec k live); [right; split; auto | auto]. }
  assert (bound := order_error precision least precision_domain order inputs loose loosely).
  rewrite !evaluates, read_once in bound. cbv beta in bound. fold u eta in bound.
  set (p := longest_path false order) in *. set (q := longest_path true order) in *.
  assert (workers : 0 < INR live) by (apply lt_0_INR; lia).
  assert (over : 0 < / INR live) by (apply Rinv_0_lt_compat; exact workers).
  assert (room : INR (depth + 3) * u < 1) by (rewrite plus_INR; simpl; lra).
  assert (g3 := gamma_nonneg precision (depth + 3) room).
  set (gamma3 := gamma (depth + 3) precision) in *.
  set (reach := fun i => Rabs (vector i) + tolerances i).
  assert (sized : forall i, (i < live)%nat -> Rabs (inputs i - Rabs (vector i)) <= tolerances i).
  { intros i le. rewrite (magnitudes i le). eapply Rle_trans; [apply Rabs_triang_inv2 | apply (near i le)]. }
  assert (tight : forall i, (i < live)%nat -> loose i = 0).
  { intros i le. unfold loose. destruct (Nat.ltb_spec i live); [reflexivity | lia]. }
  assert (terms := weighted_terms precision precision_domain order live depth inputs (fun i => Rabs (vector i))
    tolerances weights live_domain room sized weights_stored paths).
  assert (spills := weighted_spills precision order live depth inputs (fun i => Rabs (vector i))
    tolerances loose room sized tight paths one_product).
  fold u p q gamma3 in terms, spills. cbv beta in terms, spills.
  rewrite (bigsum_ext live (fun i => gamma3 / INR live * (Rabs (Rabs (vector i)) + tolerances i) + tolerances i / INR live)
    (fun i => gamma3 / INR live * reach i + tolerances i / INR live)) in terms
    by (intros i le; rewrite Rabs_Rabsolu; reflexivity).
  rewrite (bigsum_ext live (fun i => nonzero (Rabs (Rabs (vector i)) + tolerances i)) (fun i => nonzero (reach i)))
    in spills by (intros i le; rewrite Rabs_Rabsolu; reflexivity).
  set (Z := bigsum live (fun i => nonzero (reach i))).
  assert (some_pos : forall i, 0 <= nonzero (reach i))
    by (intros i; destruct (nonzero_cases (reach i)) as [[_ ->]|[_ ->]]; lra).
  assert (Zpos : 0 <= Z) by (apply bigsum_nonneg; intros i le; apply some_pos).
  fold Z in spills. apply (Rmult_le_compat_l (eta / 2)) in spills; [|lra].
  set (v := computed precision least order inputs) in *.
  assert (moved := bigsum_abs live (fun i => weights i * inputs i - Rabs (vector i) / INR live)).
  rewrite bigsum_minus in moved.
  rewrite bigsum_plus, bigsum_scal in terms.
  assert (div : forall f, bigsum live (fun i => f i / INR live) = bigsum live f / INR live)
    by (intros f; unfold Rdiv; apply bigsum_scal_r).
  rewrite !div in *.
  change (fun i => tolerances i) with tolerances in *. change (fun i => reach i) with reach in *.
  unfold reach at 1 in terms. rewrite bigsum_plus in terms.
  set (M := bigsum live (fun k => Rabs (vector k))) in *. set (W := bigsum live tolerances) in *.
  assert (Mpos : 0 <= M) by (apply bigsum_nonneg; intros i le; apply Rabs_pos).
  assert (Wpos : 0 <= W).
  { apply bigsum_nonneg. intros i le. eapply Rle_trans; [apply Rabs_pos | apply (near i le)]. }
  unfold Rdiv in *. set (n' := / INR live) in *.
  assert (Mn : 0 <= M * n') by (apply Rmult_le_pos; lra). assert (Wn : 0 <= W * n') by (apply Rmult_le_pos; lra).
  set (A := eta * / 2 * ((1 + gamma3) * Z)) in *.
  assert (Apos : 0 <= A) by (unfold A; apply Rmult_le_pos; [lra | apply Rmult_le_pos; lra]).
  assert (before : Rabs (v - M * n') <= gamma3 * (M * n' + W * n') + W * n' + A).
  { replace (v - M * n') with ((v - bigsum live (fun i => weights i * inputs i))
      + (bigsum live (fun i => weights i * inputs i) - M * n')) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. lra. }
  change (fun k => nonzero (Rabs (vector k) + tolerances k)) with (fun i => nonzero (reach i)). fold Z.
  set (v' := unit_roundoff stored_precision) in *. set (eta' := smallest_subnormal stored_least) in *.
  assert (stored := fl_error stored_precision stored_least stored_precision_domain v). fold v' eta' in stored.
  assert (length : Rabs v <= (1 + gamma3) * (M * n' + W * n') + A).
  { replace v with (M * n' + (v - M * n')) by ring. eapply Rle_trans; [apply Rabs_triang|].
    rewrite (Rabs_right (M * n')) by lra. lra. }
  assert (twice : (1 + v') * A <= eta * ((1 + gamma3) * Z)).
  { unfold A. replace (eta * ((1 + gamma3) * Z)) with (2 * (eta * / 2 * ((1 + gamma3) * Z))) by field.
    apply Rmult_le_compat_r; [exact Apos | lra]. }
  apply (Rmult_le_compat_l v') in length; [|lra].
  replace (fl stored_precision stored_least v - M * n')
    with ((fl stored_precision stored_least v - v) + (v - M * n')) by ring.
  destruct (nonzero_cases (M * n' + W * n')) as [[none ->]|[_ ->]].
  - assert (M * n' = 0) as m0 by lra. assert (W * n' = 0) as w0 by lra.
    assert (M = 0) as m1 by nra. assert (W = 0) as w1 by nra.
    assert (Z = 0) as z0.
    { assert (whole : bigsum live reach = 0) by (unfold reach; rewrite bigsum_plus; fold M W; lra).
      unfold Z. rewrite (bigsum_ext live _ (fun _ => 0)); [rewrite bigsum_const; ring|]. intros i le.
      assert (nothing : reach i = 0).
      { apply (bigsum_zero live reach); auto. intros j lj. unfold reach. assert (R := sized j lj).
        assert (P := Rabs_pos (inputs j - Rabs (vector j))). assert (Q := Rabs_pos (vector j)). lra. }
      rewrite nothing. destruct (nonzero_cases 0) as [[_ ->]|[bad _]]; [reflexivity | lra]. }
    assert (A = 0) as a0 by (unfold A; rewrite z0; ring).
    assert (v = 0) as zero.
    { rewrite m0, w0, a0 in before. destruct (Req_dec v 0) as [|other]; [assumption|].
      apply Rabs_pos_lt in other. rewrite Rminus_0_r in before. lra. }
    rewrite zero, fl_zero, m0, w0, z0. replace (0 - 0 + (0 - 0)) with 0 by ring. rewrite Rabs_R0. lra.
  - eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.
