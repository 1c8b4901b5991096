(* Floating-point numbers and the orders in which a linear expression of them can be evaluated. The definitions before
   the line of lemmas are what statements speak of. Rounding is Flocq's: to nearest, ties to even, gradual underflow,
   no overflow. *)
From Onebit Require Import Prelude.
From Flocq Require Import Core Relative Plus_error.
Open Scope R_scope.

(* Half the spacing of the numbers next to 1, and the least positive number. float32: precision 24, least 149. *)
Definition unit_roundoff (precision : nat) : R := / 2 ^ precision.
Definition smallest_subnormal (least : nat) : R := / 2 ^ least.

(* The number of the format that is next to x. *)
Definition fl (precision least : nat) (x : R) : R :=
  round radix2 (FLT_exp (- Z.of_nat least) (Z.of_nat precision)) ZnearestE x.

(* What k factors 1 + d or 1/(1 + d) with abs(d) <= unit_roundoff can do. *)
Definition gamma (k precision : nat) : R := INR k * unit_roundoff precision / (1 - INR k * unit_roundoff precision).

Definition nonzero (x : R) : R := if Req_EM_T x 0 then 0 else 1.

(* A constant of an evaluation. *)
Record share := { value :> R; share_domain : 0 <= value <= 1 }.

(* An evaluation of a linear expression: input k, a + b, c a, and c a + b fused into one operation. *)
Inductive tree : Set :=
  | Read (k : nat)
  | Plus (a b : tree)
  | Times (c : share) (a : tree)
  | Fused (c : share) (a b : tree).

(* Its value with every operation rounded, and in exact arithmetic. *)
Fixpoint computed (precision least : nat) (o : tree) (x : nat -> R) : R :=
  match o with
  | Read k => x k
  | Plus a b => fl precision least (computed precision least a x + computed precision least b x)
  | Times c a => fl precision least (c * computed precision least a x)
  | Fused c a b => fl precision least (c * computed precision least a x + computed precision least b x)
  end.

Fixpoint exact (o : tree) (x : nat -> R) : R :=
  match o with
  | Read k => x k
  | Plus a b => exact a x + exact b x
  | Times c a => c * exact a x
  | Fused c a b => c * exact a x + exact b x
  end.

(* The sum of what it reads, each input as often as it is read. *)
Fixpoint reads (o : tree) (x : nat -> R) : R :=
  match o with
  | Read k => x k
  | Plus a b => reads a x + reads b x
  | Times c a => reads a x
  | Fused c a b => reads a x + reads b x
  end.

(* Whether input k is read, and the most roundings, and the most products, between it and the result. *)
Fixpoint has (o : tree) (k : nat) : bool :=
  match o with
  | Read j => Nat.eqb j k
  | Plus a b | Fused _ a b => orb (has a k) (has b k)
  | Times _ a => has a k
  end.

Fixpoint longest_path (only_products : bool) (o : tree) (k : nat) : nat :=
  let longer (steps : nat) (a : tree) := if has a k then (steps + longest_path only_products a k)%nat else O in
  let sum_step := if only_products then O else 1%nat in
  match o with
  | Read _ => O
  | Plus a b => Nat.max (longer sum_step a) (longer sum_step b)
  | Times _ a => longer 1%nat a
  | Fused _ a b => Nat.max (longer 1%nat a) (longer sum_step b)
  end.

Definition roundings (o : tree) (k : nat) : R := INR (longest_path false o k).
Definition products (o : tree) (k : nat) : R := INR (longest_path true o k).

(* ---- lemmas ---- *)

Lemma within : forall x y, Rabs x <= y -> - y <= x <= y.
Proof. intros x y le. unfold Rabs in le. destruct Rcase_abs; lra. Qed.

Section format.
Variables (precision least : nat).
Hypothesis precise : (1 <= precision)%nat.
Local Notation u := (unit_roundoff precision).
Local Notation eta := (smallest_subnormal least).
Local Notation rounded := (fl precision least).

Lemma u_positive : 0 < u.
Proof. unfold unit_roundoff. apply Rinv_0_lt_compat, pow_lt. lra. Qed.

Lemma eta_positive : 0 < eta.
Proof. unfold smallest_subnormal. apply Rinv_0_lt_compat, pow_lt. lra. Qed.

Lemma bpow_minus : forall n, bpow radix2 (- Z.of_nat n) = / 2 ^ n.
Proof. intros n. rewrite bpow_opp, <- IZR_Zpower by lia. simpl. rewrite pow_IZR. reflexivity. Qed.

Lemma u_flocq : / 2 * bpow radix2 (- Z.of_nat precision + 1) = u.
Proof. rewrite bpow_plus, bpow_minus. unfold unit_roundoff. simpl. lra. Qed.

Lemma prec_positive : Prec_gt_0 (Z.of_nat precision).
Proof. unfold Prec_gt_0. lia. Qed.

Lemma fl_error : forall x, Rabs (rounded x - x) <= u * Rabs x + eta / 2.
Proof.
  intros x. destruct (error_N_FLT radix2 (- Z.of_nat least) (Z.of_nat precision) prec_positive
    (fun n => negb (Z.even n)) x) as (d & e & small & tiny & one & same).
  unfold fl. change ZnearestE with (Znearest (fun n => negb (Z.even n))). rewrite same.
  rewrite u_flocq in small. rewrite bpow_minus in tiny.
  replace (x * (1 + d) + e - x) with (d * x + e) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult.
  apply Rplus_le_compat; [apply Rmult_le_compat_r; [apply Rabs_pos | exact small]|].
  unfold smallest_subnormal. lra.
Qed.

Lemma fl_fixed : forall x, rounded (rounded x) = rounded x.
Proof.
  intros x. unfold fl. assert (V := prec_positive). apply round_generic; [apply valid_rnd_N|].
  apply generic_format_round; [apply FLT_exp_valid; exact V | apply valid_rnd_N].
Qed.

Lemma fl_zero : rounded 0 = 0.
Proof. unfold fl. apply round_0. apply valid_rnd_N. Qed.

Lemma fl_nonneg : forall x, 0 <= x -> 0 <= rounded x.
Proof.
  intros x pos. assert (V := prec_positive). rewrite <- fl_zero. unfold fl.
  apply round_le; [apply FLT_exp_valid; exact V | apply valid_rnd_N | exact pos].
Qed.

Lemma fl_opposite : forall x, rounded (- x) = - rounded x.
Proof. intros x. unfold fl. apply round_NE_opp. Qed.

Lemma fl_magnitude : forall x, rounded x = x -> rounded (Rabs x) = Rabs x.
Proof. intros x same. unfold Rabs. destruct (Rcase_abs x); [rewrite fl_opposite, same; reflexivity | exact same]. Qed.

Lemma fl_format : forall x, rounded x = x -> generic_format radix2 (FLT_exp (- Z.of_nat least) (Z.of_nat precision)) x.
Proof.
  intros x same. rewrite <- same. assert (V := prec_positive).
  apply generic_format_round; [apply FLT_exp_valid; exact V | apply valid_rnd_N].
Qed.

(* A sum of two numbers of the format does not underflow. *)
Lemma fl_sum_error : forall x y, rounded x = x -> rounded y = y -> Rabs (rounded (x + y) - (x + y)) <= u * Rabs (x + y).
Proof.
  intros x y formx formy. assert (V := prec_positive).
  destruct (FLT_plus_error_N_ex radix2 (- Z.of_nat least) (Z.of_nat precision) (fun n => negb (Z.even n)) x y
    (fl_format x formx) (fl_format y formy)) as (d & small & same).
  unfold fl. change ZnearestE with (Znearest (fun n => negb (Z.even n))). rewrite same.
  replace ((x + y) * (1 + d) - (x + y)) with (d * (x + y)) by ring. rewrite Rabs_mult.
  apply Rmult_le_compat_r; [apply Rabs_pos|]. eapply Rle_trans; [exact small|].
  eapply Rle_trans; [apply u_rod1pu_ro_le_u_ro|]. unfold u_ro. rewrite u_flocq. lra.
Qed.

Lemma fl_nearest : forall x f, rounded f = f -> Rabs (rounded x - x) <= Rabs (f - x).
Proof.
  intros x f form. assert (V := prec_positive).
  destruct (round_N_pt radix2 (FLT_exp (- Z.of_nat least) (Z.of_nat precision)) (fun n => negb (Z.even n)) x) as [_ near].
  unfold fl. apply near. apply fl_format. exact form.
Qed.

(* What each input can become when every operation errs as far as it may, and what underflow adds, in halves of eta;
   `loose` is 1 for an input that need not be a number of the format. *)
Fixpoint amplified (o : tree) (x : nat -> R) : R :=
  match o with
  | Read k => x k
  | Plus a b => (1 + u) * (amplified a x + amplified b x)
  | Times c a => (1 + u) * (c * amplified a x)
  | Fused c a b => (1 + u) * (c * amplified a x + amplified b x)
  end.

Fixpoint spilled (o : tree) (loose x : nat -> R) : R :=
  match o with
  | Read k => loose k
  | Plus a b => (1 + u) * (spilled a loose x + spilled b loose x)
  | Times c a => (1 + u) * spilled a loose x + nonzero (reads a x)
  | Fused c a b => (1 + u) * (spilled a loose x + spilled b loose x) + nonzero (reads a x)
  end.

Lemma nonzero_cases : forall x, x = 0 /\ nonzero x = 0 \/ x <> 0 /\ nonzero x = 1.
Proof. intros x. unfold nonzero. destruct (Req_EM_T x 0); auto. Qed.

Lemma reads_nonneg : forall o x, (forall k, 0 <= x k) -> 0 <= reads o x.
Proof. induction o; intros x pos; simpl; auto; try (specialize (IHo1 x pos); specialize (IHo2 x pos); lra). Qed.

Lemma exact_nonneg : forall o x, (forall k, 0 <= x k) -> 0 <= exact o x.
Proof.
  induction o; intros x pos; simpl; auto; try (destruct c as [c [low high]]; simpl).
  - specialize (IHo1 x pos); specialize (IHo2 x pos); lra.
  - specialize (IHo x pos); nra.
  - specialize (IHo1 x pos); specialize (IHo2 x pos); nra.
Qed.

Lemma spilled_nonneg : forall o loose x, (forall k, 0 <= loose k) -> 0 <= spilled o loose x.
Proof.
  assert (U := u_positive).
  induction o; intros loose x pos; simpl; auto.
  - specialize (IHo1 loose x pos); specialize (IHo2 loose x pos); nra.
  - specialize (IHo loose x pos). destruct (nonzero_cases (reads o x)) as [[_ ->]|[_ ->]]; nra.
  - specialize (IHo1 loose x pos); specialize (IHo2 loose x pos).
    destruct (nonzero_cases (reads o1 x)) as [[_ ->]|[_ ->]]; nra.
Qed.

Lemma exact_abs : forall o x, Rabs (exact o x) <= exact o (fun k => Rabs (x k)).
Proof.
  induction o; intros x; simpl; try lra; try (destruct c as [c [low high]]; simpl).
  - eapply Rle_trans; [apply Rabs_triang|]. specialize (IHo1 x); specialize (IHo2 x); lra.
  - rewrite Rabs_mult, (Rabs_right c) by lra. apply Rmult_le_compat_l; auto.
  - eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult, (Rabs_right c) by lra.
    specialize (IHo1 x); specialize (IHo2 x). apply Rplus_le_compat; auto. apply Rmult_le_compat_l; auto.
Qed.

Lemma reads_zero : forall o x, reads o (fun k => Rabs (x k)) = 0 -> computed precision least o x = 0.
Proof.
  assert (zero : rounded 0 = 0) by apply fl_zero.
  assert (pos : forall o x, 0 <= reads o (fun k => Rabs (x k))) by (intros; apply reads_nonneg; intros; apply Rabs_pos).
  induction o; intros x none; simpl in *.
  - destruct (Req_dec (x k) 0) as [|other]; auto. apply Rabs_no_R0 in other. lra.
  - assert (A := pos o1 x); assert (B := pos o2 x). rewrite IHo1, IHo2 by lra. rewrite Rplus_0_r. exact zero.
  - rewrite IHo by lra. rewrite Rmult_0_r. exact zero.
  - assert (A := pos o1 x); assert (B := pos o2 x). rewrite IHo1, IHo2 by lra. rewrite Rmult_0_r, Rplus_0_r. exact zero.
Qed.

Lemma order_error_with_debt : forall o x loose,
  (forall k, loose k = 1 \/ loose k = 0 /\ rounded (x k) = x k) ->
  exists debt, (debt = 1 \/ debt = 0 /\ rounded (computed precision least o x) = computed precision least o x) /\
    Rabs (computed precision least o x - exact o x) + debt * (eta / 2)
      <= amplified o (fun k => Rabs (x k)) - exact o (fun k => Rabs (x k))
         + eta / 2 * spilled o loose (fun k => Rabs (x k)).
Proof.
  assert (U := u_positive). assert (H := eta_positive).
  induction o; intros x loose form; simpl.
  - exists (loose k). split; [apply form|]. replace (x k - x k) with 0 by ring. rewrite Rabs_R0. lra.
  - destruct (IHo1 x loose form) as (da & fa & ea). destruct (IHo2 x loose form) as (db & fb & eb). clear IHo1 IHo2.
    exists 0. split; [right; split; [reflexivity | apply fl_fixed]|].
    assert (xa := exact_abs o1 x). assert (xb := exact_abs o2 x).
    set (A := computed precision least o1 x) in *. set (B := computed precision least o2 x) in *.
    assert (step : Rabs (rounded (A + B) - (A + B)) <= u * Rabs (A + B) + (da + db) * (eta / 2)).
    { destruct fa as [->|[-> formA]]; [|destruct fb as [->|[-> formB]]].
      - eapply Rle_trans; [apply fl_error|]. destruct fb as [->|[-> _]]; lra.
      - eapply Rle_trans; [apply fl_error|]. lra.
      - eapply Rle_trans; [apply fl_sum_error; assumption|]. lra. }
    assert (size : Rabs (A + B) <= Rabs (A - exact o1 x) + exact o1 (fun k => Rabs (x k))
                                   + Rabs (B - exact o2 x) + exact o2 (fun k => Rabs (x k))).
    { replace (A + B) with ((A - exact o1 x) + exact o1 x + ((B - exact o2 x) + exact o2 x)) by ring.
      eapply Rle_trans; [apply Rabs_triang|].
      assert (T1 := Rabs_triang (A - exact o1 x) (exact o1 x)).
      assert (T2 := Rabs_triang (B - exact o2 x) (exact o2 x)). lra. }
    replace (rounded (A + B) - (exact o1 x + exact o2 x))
      with ((rounded (A + B) - (A + B)) + ((A - exact o1 x) + (B - exact o2 x))) by ring.
    eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|].
    assert (T := Rabs_triang (A - exact o1 x) (B - exact o2 x)).
    assert (da0 : 0 <= da) by (destruct fa as [->|[-> _]]; lra).
    assert (db0 : 0 <= db) by (destruct fb as [->|[-> _]]; lra).
    assert (0 <= u * (da * (eta / 2))) by (apply Rmult_le_pos; [lra|]; apply Rmult_le_pos; lra).
    assert (0 <= u * (db * (eta / 2))) by (apply Rmult_le_pos; [lra|]; apply Rmult_le_pos; lra).
    apply (Rmult_le_compat_l u) in size; [|lra].
    assert (ua := Rmult_le_compat_l u _ _ (Rlt_le _ _ U) ea). assert (ub := Rmult_le_compat_l u _ _ (Rlt_le _ _ U) eb).
    lra.
  - destruct (IHo x loose form) as (da & fa & ea). clear IHo. destruct c as [c [low high]]; simpl.
    exists 0. split; [right; split; [reflexivity | apply fl_fixed]|].
    assert (xa := exact_abs o x). assert (da0 : 0 <= da) by (destruct fa as [->|[-> _]]; lra).
    set (X := exact o (fun k => Rabs (x k))) in *. set (S := spilled o loose (fun k => Rabs (x k))) in *.
    assert (ca := Rmult_le_compat_l c _ _ low ea). assert (Spos : 0 <= S).
    { apply spilled_nonneg. intros k. destruct (form k) as [->|[-> _]]; lra. }
    assert (cS : c * (eta / 2 * S) <= eta / 2 * S) by (assert (0 <= eta / 2 * S) by nra; nra).
    assert (cd : 0 <= c * (da * (eta / 2))) by (repeat apply Rmult_le_pos; lra).
    destruct (nonzero_cases (reads o (fun k => Rabs (x k)))) as [[none ->]|[_ ->]].
    + apply reads_zero in none. rewrite none in *. rewrite Rmult_0_r, fl_zero.
      replace (0 - c * exact o x) with (c * (0 - exact o x)) by ring. rewrite Rabs_mult, (Rabs_right c) by lra.
      assert (0 <= u * (c * X)) by (apply Rmult_le_pos; [lra|]; apply Rmult_le_pos; [lra|]; apply exact_nonneg; intros; apply Rabs_pos).
      assert (0 <= c * Rabs (0 - exact o x)) by (apply Rmult_le_pos; [lra | apply Rabs_pos]).
      assert (grown := Rmult_le_compat_l u _ _ (Rlt_le _ _ U) ca).
      assert (0 <= u * (c * Rabs (0 - exact o x))) by (apply Rmult_le_pos; lra).
      assert (0 <= u * (c * (da * (eta / 2)))) by (apply Rmult_le_pos; lra).
      assert (u * (c * (eta / 2 * S)) <= u * (eta / 2 * S)) by (apply Rmult_le_compat_l; lra). lra.
    + set (A := computed precision least o x) in *.
      assert (step := fl_error (c * A)).
      rewrite Rabs_mult, (Rabs_right c) in step by lra.
      assert (size : Rabs A <= Rabs (A - exact o x) + X).
      { replace A with ((A - exact o x) + exact o x) at 1 by ring. assert (T := Rabs_triang (A - exact o x) (exact o x)). lra. }
      assert (csize := Rmult_le_compat_l c _ _ low size).
      assert (usize := Rmult_le_compat_l u _ _ (Rlt_le _ _ U) csize).
      assert (ua := Rmult_le_compat_l u _ _ (Rlt_le _ _ U) ca).
      assert (uS : u * (c * (eta / 2 * S)) <= u * (eta / 2 * S)) by (apply Rmult_le_compat_l; lra).
      assert (0 <= u * (c * (da * (eta / 2)))) by (apply Rmult_le_pos; lra).
      replace (rounded (c * A) - c * exact o x) with ((rounded (c * A) - c * A) + c * (A - exact o x)) by ring.
      eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|]. rewrite (Rabs_mult c), (Rabs_right c) by lra. lra.
  - destruct (IHo1 x loose form) as (da & fa & ea). destruct (IHo2 x loose form) as (db & fb & eb). clear IHo1 IHo2.
    destruct c as [c [low high]]; simpl.
    exists 0. split; [right; split; [reflexivity | apply fl_fixed]|].
    assert (xa := exact_abs o1 x). assert (xb := exact_abs o2 x).
    assert (da0 : 0 <= da) by (destruct fa as [->|[-> _]]; lra).
    assert (db0 : 0 <= db) by (destruct fb as [->|[-> _]]; lra).
    set (X := exact o1 (fun k => Rabs (x k))) in *. set (S := spilled o1 loose (fun k => Rabs (x k))) in *.
    assert (ca := Rmult_le_compat_l c _ _ low ea). assert (Spos : 0 <= S).
    { apply spilled_nonneg. intros k. destruct (form k) as [->|[-> _]]; lra. }
    assert (cS : c * (eta / 2 * S) <= eta / 2 * S) by (assert (0 <= eta / 2 * S) by nra; nra).
    assert (cd : 0 <= c * (da * (eta / 2))) by (repeat apply Rmult_le_pos; lra).
    set (A := computed precision least o1 x) in *. set (B := computed precision least o2 x) in *.
    assert (step : Rabs (rounded (c * A + B) - (c * A + B)) <= u * Rabs (c * A + B) + db * (eta / 2)
                   + eta / 2 * nonzero (reads o1 (fun k => Rabs (x k)))).
    { destruct (nonzero_cases (reads o1 (fun k => Rabs (x k)))) as [[none ->]|[_ ->]].
      - apply reads_zero in none. fold A in none. rewrite none, Rmult_0_r, Rplus_0_l.
        destruct fb as [->|[-> formB]].
        + eapply Rle_trans; [apply fl_error|]. lra.
        + rewrite formB. replace (B - B) with 0 by ring. rewrite Rabs_R0. assert (0 <= Rabs B) by apply Rabs_pos. nra.
      - eapply Rle_trans; [apply fl_error|]. assert (0 <= db * (eta / 2)) by (apply Rmult_le_pos; lra). lra. }
    assert (size : Rabs (c * A + B) <= c * Rabs (A - exact o1 x) + c * X
                                   + Rabs (B - exact o2 x) + exact o2 (fun k => Rabs (x k))).
    { replace (c * A + B) with (c * (A - exact o1 x) + c * exact o1 x + ((B - exact o2 x) + exact o2 x)) by ring.
      eapply Rle_trans; [apply Rabs_triang|].
      assert (T1 := Rabs_triang (c * (A - exact o1 x)) (c * exact o1 x)). rewrite !Rabs_mult, (Rabs_right c) in T1 by lra.
      assert (T2 := Rabs_triang (B - exact o2 x) (exact o2 x)).
      assert (cx := Rmult_le_compat_l c _ _ low xa). lra. }
    replace (rounded (c * A + B) - (c * exact o1 x + exact o2 x))
      with ((rounded (c * A + B) - (c * A + B)) + (c * (A - exact o1 x) + (B - exact o2 x))) by ring.
    eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|].
    assert (T := Rabs_triang (c * (A - exact o1 x)) (B - exact o2 x)). rewrite Rabs_mult, (Rabs_right c) in T by lra.
    assert (usize := Rmult_le_compat_l u _ _ (Rlt_le _ _ U) size).
    assert (ua := Rmult_le_compat_l u _ _ (Rlt_le _ _ U) ca).
    assert (ub := Rmult_le_compat_l u _ _ (Rlt_le _ _ U) eb).
    assert (uS : u * (c * (eta / 2 * S)) <= u * (eta / 2 * S)) by (apply Rmult_le_compat_l; lra).
    assert (0 <= u * (c * (da * (eta / 2)))) by (apply Rmult_le_pos; lra).
    assert (0 <= u * (db * (eta / 2))) by (repeat apply Rmult_le_pos; lra). lra.
Qed.

Lemma exact_mono : forall o x y, (forall k, has o k = true -> x k <= y k) -> exact o x <= exact o y.
Proof.
  induction o; intros x y below; simpl in *.
  - apply below. apply Nat.eqb_refl.
  - apply Rplus_le_compat; [apply IHo1 | apply IHo2]; intros k it; apply below; rewrite it; auto using Bool.orb_true_r.
  - destruct c as [c [low high]]; simpl. apply Rmult_le_compat_l; auto.
  - destruct c as [c [low high]]; simpl. apply Rplus_le_compat; [apply Rmult_le_compat_l; [lra | apply IHo1] | apply IHo2];
      intros k it; apply below; rewrite it; auto using Bool.orb_true_r.
Qed.

Lemma reads_mono : forall o x y, (forall k, has o k = true -> x k <= y k) -> reads o x <= reads o y.
Proof.
  induction o; intros x y below; simpl in *; auto.
  - apply below. apply Nat.eqb_refl.
  - apply Rplus_le_compat; [apply IHo1 | apply IHo2]; intros k it; apply below; rewrite it; auto using Bool.orb_true_r.
  - apply Rplus_le_compat; [apply IHo1 | apply IHo2]; intros k it; apply below; rewrite it; auto using Bool.orb_true_r.
Qed.

Lemma exact_scaled : forall o x s, s * exact o x = exact o (fun k => s * x k).
Proof. induction o; intros x s; simpl; try (rewrite <- IHo1, <- IHo2); try rewrite <- IHo; ring. Qed.

Lemma reads_scaled : forall o x s, s * reads o x = reads o (fun k => s * x k).
Proof. induction o; intros x s; simpl; try (rewrite <- IHo1, <- IHo2); try rewrite <- IHo; ring. Qed.

Lemma reads_sum : forall o x y, reads o (fun k => x k + y k) = reads o x + reads o y.
Proof. induction o; intros x y; simpl; try rewrite IHo1, IHo2; try rewrite IHo; ring. Qed.

Lemma power_grows : forall m n x, 0 <= x -> (m <= n)%nat -> (1 + u) ^ m * x <= (1 + u) ^ n * x.
Proof. intros m n x pos le. assert (U := u_positive). apply Rmult_le_compat_r; [exact pos|]. apply Rle_pow; [lra | exact le]. Qed.

Lemma path_plus_left : forall (p : bool) a b k, has a k = true ->
  ((if p then 0 else 1) + longest_path p a k <= longest_path p (Plus a b) k)%nat.
Proof. intros p a b k it. cbn -[Nat.max]. rewrite it. destruct p, (has b k); cbn -[Nat.max]; lia. Qed.
Lemma path_plus_right : forall (p : bool) a b k, has b k = true ->
  ((if p then 0 else 1) + longest_path p b k <= longest_path p (Plus a b) k)%nat.
Proof. intros p a b k it. cbn -[Nat.max]. rewrite it. destruct p, (has a k); cbn -[Nat.max]; lia. Qed.
Lemma path_times : forall (p : bool) c a k, has a k = true -> longest_path p (Times c a) k = S (longest_path p a k).
Proof. intros p c a k it. simpl. rewrite it. reflexivity. Qed.
Lemma path_fused_left : forall (p : bool) c a b k, has a k = true -> (S (longest_path p a k) <= longest_path p (Fused c a b) k)%nat.
Proof. intros p c a b k it. cbn -[Nat.max]. rewrite it. destruct p, (has b k); cbn -[Nat.max]; lia. Qed.
Lemma path_fused_right : forall (p : bool) c a b k, has b k = true ->
  ((if p then 0 else 1) + longest_path p b k <= longest_path p (Fused c a b) k)%nat.
Proof. intros p c a b k it. cbn -[Nat.max]. rewrite it. destruct p, (has a k); cbn -[Nat.max]; lia. Qed.

Lemma amplified_le : forall o x, (forall k, 0 <= x k) ->
  amplified o x <= exact o (fun k => (1 + u) ^ longest_path false o k * x k).
Proof.
  assert (U := u_positive).
  assert (grown : forall a b x, (forall k, 0 <= x k) ->
    (forall k, has a k = true -> (S (longest_path false a k) <= longest_path false b k)%nat) ->
    (1 + u) * exact a (fun k => (1 + u) ^ longest_path false a k * x k)
      <= exact a (fun k => (1 + u) ^ longest_path false b k * x k)).
  { intros a b x pos longer. rewrite exact_scaled. apply exact_mono. intros k it.
    rewrite <- Rmult_assoc. change ((1 + u) * (1 + u) ^ longest_path false a k) with ((1 + u) ^ S (longest_path false a k)).
    apply power_grows; auto. }
  induction o; intros x pos.
  - simpl. lra.
  - specialize (IHo1 x pos). specialize (IHo2 x pos).
    assert (A := grown o1 (Plus o1 o2) x pos (path_plus_left false o1 o2)).
    assert (B := grown o2 (Plus o1 o2) x pos (path_plus_right false o1 o2)).
    cbn [amplified exact]. nra.
  - specialize (IHo x pos).
    assert (A := grown o (Times c o) x pos (fun k it => Nat.eq_le_incl _ _ (eq_sym (path_times false c o k it)))).
    cbn [amplified exact]. destruct c as [c [low high]]; simpl value in *.
    rewrite <- Rmult_assoc, (Rmult_comm (1 + u)), Rmult_assoc. apply Rmult_le_compat_l; [lra|]. nra.
  - specialize (IHo1 x pos). specialize (IHo2 x pos).
    assert (A := grown o1 (Fused c o1 o2) x pos (path_fused_left false c o1 o2)).
    assert (B := grown o2 (Fused c o1 o2) x pos (path_fused_right false c o1 o2)).
    cbn [amplified exact]. destruct c as [c [low high]]; simpl value in *.
    assert (IH1 := Rmult_le_compat_l (1 + u) _ _ ltac:(lra) IHo1).
    assert (IH2 := Rmult_le_compat_l (1 + u) _ _ ltac:(lra) IHo2).
    assert (C := Rmult_le_compat_l c _ _ low (Rle_trans _ _ _ IH1 A)). lra.
Qed.

Lemma nonzero_reads : forall o x, (forall k, 0 <= x k) -> nonzero (reads o x) <= reads o (fun k => nonzero (x k)).
Proof.
  assert (one : forall x, 0 <= nonzero x <= 1) by (intros x; destruct (nonzero_cases x) as [[_ ->]|[_ ->]]; lra).
  assert (two : forall a b, nonzero (a + b) <= nonzero a + nonzero b).
  { intros a b. destruct (nonzero_cases (a + b)) as [[_ ->]|[other ->]]; [assert (A := one a); assert (B := one b); lra|].
    destruct (nonzero_cases a) as [[-> _]|[_ ->]]; [|assert (B := one b); lra].
    destruct (nonzero_cases b) as [[-> _]|[_ ->]]; [lra | assert (A := one 0); lra]. }
  induction o; intros x pos; simpl; auto; try lra.
  - eapply Rle_trans; [apply two|]. apply Rplus_le_compat; auto.
  - eapply Rle_trans; [apply two|]. apply Rplus_le_compat; auto.
Qed.

Lemma spilled_le : forall o loose x, (forall k, 0 <= x k) -> (forall k, 0 <= loose k) ->
  spilled o loose x <= reads o (fun k => (1 + u) ^ longest_path false o k *
                                         (loose k + INR (longest_path true o k) * nonzero (x k))).
Proof.
  assert (U := u_positive).
  assert (one : forall x, 0 <= nonzero x <= 1) by (intros x; destruct (nonzero_cases x) as [[_ ->]|[_ ->]]; lra).
  assert (grown : forall a b loose x, (forall k, 0 <= x k) -> (forall k, 0 <= loose k) ->
    (forall k, has a k = true -> (S (longest_path false a k) <= longest_path false b k)%nat) ->
    (forall k, has a k = true -> (longest_path true a k <= longest_path true b k)%nat) ->
    (1 + u) * reads a (fun k => (1 + u) ^ longest_path false a k * (loose k + INR (longest_path true a k) * nonzero (x k)))
      <= reads a (fun k => (1 + u) ^ longest_path false b k * (loose k + INR (longest_path true b k) * nonzero (x k)))).
  { intros a b loose x pos lpos longer more. rewrite reads_scaled. apply reads_mono. intros k it.
    rewrite <- Rmult_assoc. change ((1 + u) * (1 + u) ^ longest_path false a k) with ((1 + u) ^ S (longest_path false a k)).
    assert (I := le_INR _ _ (more k it)). assert (P := pos_INR (longest_path true a k)). assert (Z := one (x k)).
    assert (L := lpos k). assert (INR (longest_path true a k) * nonzero (x k) <= INR (longest_path true b k) * nonzero (x k))
      by (apply Rmult_le_compat_r; lra).
    assert (0 <= INR (longest_path true a k) * nonzero (x k)) by (apply Rmult_le_pos; lra).
    eapply Rle_trans; [apply power_grows; [lra | apply (longer k it)]|].
    apply Rmult_le_compat_l; [apply pow_le; lra | lra]. }
  assert (product : forall a b loose x, (forall k, 0 <= x k) -> (forall k, 0 <= loose k) ->
    (forall k, has a k = true -> (S (longest_path false a k) <= longest_path false b k)%nat) ->
    (forall k, has a k = true -> (S (longest_path true a k) <= longest_path true b k)%nat) ->
    (1 + u) * reads a (fun k => (1 + u) ^ longest_path false a k * (loose k + INR (longest_path true a k) * nonzero (x k)))
      + nonzero (reads a x)
      <= reads a (fun k => (1 + u) ^ longest_path false b k * (loose k + INR (longest_path true b k) * nonzero (x k)))).
  { intros a b loose x pos lpos longer more. assert (Z := nonzero_reads a x pos).
    rewrite reads_scaled. eapply Rle_trans; [apply Rplus_le_compat_l; exact Z|]. rewrite <- reads_sum. apply reads_mono.
    intros k it. rewrite <- Rmult_assoc.
    change ((1 + u) * (1 + u) ^ longest_path false a k) with ((1 + u) ^ S (longest_path false a k)).
    assert (I := le_INR _ _ (more k it)). rewrite S_INR in I. assert (P := pos_INR (longest_path true a k)).
    assert (N := one (x k)). assert (L := lpos k).
    assert (0 <= INR (longest_path true a k) * nonzero (x k)) by (apply Rmult_le_pos; lra).
    assert ((INR (longest_path true a k) + 1) * nonzero (x k) <= INR (longest_path true b k) * nonzero (x k))
      by (apply Rmult_le_compat_r; lra).
    assert (grow : (1 + u) ^ S (longest_path false a k) <= (1 + u) ^ longest_path false b k)
      by (apply Rle_pow; [lra | apply (longer k it)]).
    assert (big : 1 <= (1 + u) ^ S (longest_path false a k)) by (apply pow_R1_Rle; lra).
    assert ((1 + u) ^ S (longest_path false a k) * (loose k + INR (longest_path true a k) * nonzero (x k)) + nonzero (x k)
      <= (1 + u) ^ S (longest_path false a k) * (loose k + (INR (longest_path true a k) + 1) * nonzero (x k))) by nra.
    eapply Rle_trans; [eassumption|]. apply Rmult_le_compat; lra || nra. }
  induction o; intros loose x pos lpos.
  - simpl. assert (Z := one (x k)). lra.
  - specialize (IHo1 loose x pos lpos). specialize (IHo2 loose x pos lpos).
    assert (A := grown o1 (Plus o1 o2) loose x pos lpos (path_plus_left false o1 o2) (path_plus_left true o1 o2)).
    assert (B := grown o2 (Plus o1 o2) loose x pos lpos (path_plus_right false o1 o2) (path_plus_right true o1 o2)).
    cbn [spilled reads]. nra.
  - specialize (IHo loose x pos lpos).
    assert (A := product o (Times c o) loose x pos lpos
      (fun k it => Nat.eq_le_incl _ _ (eq_sym (path_times false c o k it)))
      (fun k it => Nat.eq_le_incl _ _ (eq_sym (path_times true c o k it)))).
    cbn [spilled reads]. nra.
  - specialize (IHo1 loose x pos lpos). specialize (IHo2 loose x pos lpos).
    assert (A := product o1 (Fused c o1 o2) loose x pos lpos (path_fused_left false c o1 o2) (path_fused_left true c o1 o2)).
    assert (B := grown o2 (Fused c o1 o2) loose x pos lpos (path_fused_right false c o1 o2) (path_fused_right true c o1 o2)).
    cbn [spilled reads]. nra.
Qed.

Lemma power_gamma : forall h, INR h * u < 1 -> (1 + u) ^ h <= 1 + gamma h precision.
Proof.
  intros h small. assert (U := u_positive). unfold gamma.
  assert (claim : forall n, INR n * u <= 1 -> (1 + u) ^ n * (1 - INR n * u) <= 1).
  { induction n; intros le; [simpl; lra|]. rewrite S_INR in *. assert (P := pos_INR n). simpl.
    assert (IH := IHn ltac:(lra)). assert (B : 0 <= (1 + u) ^ n) by (apply pow_le; lra).
    assert ((1 + u) * (1 - (INR n + 1) * u) <= 1 - INR n * u) by nra.
    assert ((1 + u) ^ n * ((1 + u) * (1 - (INR n + 1) * u)) <= (1 + u) ^ n * (1 - INR n * u))
      by (apply Rmult_le_compat_l; assumption). lra. }
  specialize (claim h ltac:(lra)).
  replace (1 + INR h * u / (1 - INR h * u)) with (/ (1 - INR h * u)) by (field; lra).
  apply Rmult_le_reg_r with (1 - INR h * u); [lra|]. rewrite Rinv_l; lra.
Qed.

Lemma gamma_power : forall n h, (n <= h)%nat -> INR h * u < 1 -> (1 + u) ^ n - 1 <= gamma h precision.
Proof.
  intros n h le small. assert (U := u_positive). assert (P := power_gamma h small).
  assert ((1 + u) ^ n <= (1 + u) ^ h) by (apply Rle_pow; [lra | exact le]). lra.
Qed.

Lemma exact_minus : forall o x y, exact o (fun k => x k - y k) = exact o x - exact o y.
Proof. induction o; intros x y; simpl; try rewrite IHo1, IHo2; try rewrite IHo; ring. Qed.

Lemma exact_ext : forall o x y, (forall k, x k = y k) -> exact o x = exact o y.
Proof. induction o; intros x y same; simpl; try rewrite (IHo1 x y same), (IHo2 x y same); try rewrite (IHo x y same); auto. Qed.

(* Each input's share of the error: its own roundings, and half of eta for each product that it may underflow in. *)
Theorem order_error : forall o x loose, (forall k, loose k = 1 \/ loose k = 0 /\ rounded (x k) = x k) ->
  Rabs (computed precision least o x - exact o x)
    <= exact o (fun k => ((1 + u) ^ longest_path false o k - 1) * Rabs (x k))
       + eta / 2 * reads o (fun k => (1 + u) ^ longest_path false o k *
                                     (loose k + INR (longest_path true o k) * nonzero (Rabs (x k)))).
Proof.
  intros o x loose form. assert (H := eta_positive).
  destruct (order_error_with_debt o x loose form) as (debt & kinds & bound).
  assert (A := amplified_le o (fun k => Rabs (x k)) (fun k => Rabs_pos (x k))).
  assert (L : forall k, 0 <= loose k) by (intros k; destruct (form k) as [->|[-> _]]; lra).
  assert (S := spilled_le o loose (fun k => Rabs (x k)) (fun k => Rabs_pos (x k)) L).
  apply (Rmult_le_compat_l (eta / 2)) in S; [|lra].
  assert (0 <= debt * (eta / 2)) by (destruct kinds as [->|[-> _]]; lra).
  rewrite (exact_ext o (fun k => ((1 + u) ^ longest_path false o k - 1) * Rabs (x k))
    (fun k => (1 + u) ^ longest_path false o k * Rabs (x k) - Rabs (x k))) by (intros; ring).
  rewrite exact_minus. lra.
Qed.

Lemma u_small : forall n, (n <= precision)%nat -> u <= / 2 ^ n.
Proof. intros n le. unfold unit_roundoff. apply Rinv_le_contravar; [apply pow_lt; lra | apply Rle_pow; [lra | exact le]]. Qed.

Lemma nonzero_abs : forall x, nonzero (Rabs x) = nonzero x.
Proof.
  intros x. unfold nonzero. destruct (Req_EM_T (Rabs x) 0) as [none|some], (Req_EM_T x 0) as [zero|other]; auto.
  - exfalso. apply Rabs_no_R0 in other. contradiction.
  - exfalso. rewrite zero, Rabs_R0 in some. contradiction.
Qed.

Lemma weight_nonneg : forall o w j, exact o (fun k => if Nat.eqb k j then 1 else 0) = w -> 0 <= w.
Proof. intros o w j <-. apply exact_nonneg. intros k. destruct (Nat.eqb k j); lra. Qed.

(* Three inputs, each read once. *)
Theorem three_inputs : forall o x w0 w1 w2 n0 n1 n2 p0 p1 p2,
  (forall k, (k < 3)%nat -> rounded (x k) = x k) ->
  (forall y, reads o y = y 0%nat + y 1%nat + y 2%nat) ->
  (forall y, exact o y = w0 * y 0%nat + w1 * y 1%nat + w2 * y 2%nat) ->
  roundings o 0 <= INR n0 -> roundings o 1 <= INR n1 -> roundings o 2 <= INR n2 ->
  products o 0 <= p0 -> products o 1 <= p1 -> products o 2 <= p2 ->
  (n0 <= 3)%nat -> (n1 <= 3)%nat -> (n2 <= 3)%nat -> (4 <= precision)%nat ->
  0 <= w0 /\ 0 <= w1 /\ 0 <= w2 /\
  Rabs (computed precision least o x - (w0 * x 0%nat + w1 * x 1%nat + w2 * x 2%nat))
    <= gamma n0 precision * (w0 * Rabs (x 0%nat)) + gamma n1 precision * (w1 * Rabs (x 1%nat))
       + gamma n2 precision * (w2 * Rabs (x 2%nat))
       + eta * (p0 * nonzero (x 0%nat) + p1 * nonzero (x 1%nat) + p2 * nonzero (x 2%nat)).
Proof.
  intros o x w0 w1 w2 n0 n1 n2 p0 p1 p2 form once weights r0 r1 r2 q0 q1 q2 s0 s1 s2 bits.
  assert (W0 := weight_nonneg o _ 0 (weights _)). assert (W1 := weight_nonneg o _ 1 (weights _)).
  assert (W2 := weight_nonneg o _ 2 (weights _)). simpl in W0, W1, W2. ring_simplify in W0. ring_simplify in W1. ring_simplify in W2.
  set (loose := fun k => if Nat.ltb k 3 then 0 else 1).
  assert (loosely : forall k, loose k = 1 \/ loose k = 0 /\ rounded (x k) = x k).
  { intros k. unfold loose. destruct (Nat.ltb_spec k 3); [right; split; auto | auto]. }
  assert (bound := order_error o x loose loosely). rewrite !weights, once in bound.
  cbv beta in bound. change (loose 0%nat) with 0 in bound. change (loose 1%nat) with 0 in bound.
  change (loose 2%nat) with 0 in bound. rewrite !nonzero_abs in bound.
  assert (U := u_positive). assert (H := eta_positive). assert (small := u_small 4 bits).
  unfold roundings, products in *. apply INR_le in r0. apply INR_le in r1. apply INR_le in r2.
  assert (three : INR 3 = 3) by (simpl; lra).
  assert (room : forall n, (n <= 3)%nat -> INR n * u < 1).
  { intros n le. apply le_INR in le. rewrite three in le. assert (P := pos_INR n). simpl in small. nra. }
  assert (power : forall n, (n <= 3)%nat -> 1 <= (1 + u) ^ n <= 2).
  { intros n le. split; [apply pow_R1_Rle; lra|]. apply Rle_trans with ((1 + u) ^ 3); [apply Rle_pow; [lra | exact le]|].
    simpl in *. nra. }
  assert (spill : forall n m p z, (n <= m)%nat -> (m <= 3)%nat -> 0 <= INR p * nonzero z ->
    (1 + u) ^ n * (0 + INR p * nonzero z) <= 2 * (INR p * nonzero z)).
  { intros n m p z le le3 pos. destruct (power n ltac:(lia)). nra. }
  assert (one : forall z, 0 <= nonzero z <= 1) by (intros z; destruct (nonzero_cases z) as [[_ ->]|[_ ->]]; lra).
  assert (term : forall n m z w, (n <= m)%nat -> (m <= 3)%nat -> 0 <= w ->
    w * (((1 + u) ^ n - 1) * Rabs z) <= gamma m precision * (w * Rabs z)).
  { intros n m z w le le3 pos. assert (G := gamma_power n m le (room m le3)).
    assert (0 <= w * Rabs z) by (apply Rmult_le_pos; [exact pos | apply Rabs_pos]). nra. }
  assert (t0 := term _ _ (x 0%nat) w0 r0 s0 W0). assert (t1 := term _ _ (x 1%nat) w1 r1 s1 W1).
  assert (t2 := term _ _ (x 2%nat) w2 r2 s2 W2).
  assert (product : forall p q z, INR p <= q -> 0 <= INR p * nonzero z <= q * nonzero z).
  { intros p q z le. assert (P := pos_INR p). assert (Z := one z). nra. }
  destruct (product _ _ (x 0%nat) q0) as [z0 v0]. destruct (product _ _ (x 1%nat) q1) as [z1 v1].
  destruct (product _ _ (x 2%nat) q2) as [z2 v2].
  assert (e0 := spill _ _ _ _ r0 s0 z0). assert (e1 := spill _ _ _ _ r1 s1 z1). assert (e2 := spill _ _ _ _ r2 s2 z2).
  repeat split; auto. eapply Rle_trans; [exact bound|]. nra.
Qed.

Lemma gamma_nonneg : forall k, INR k * u < 1 -> 0 <= gamma k precision.
Proof.
  intros k room. assert (U := u_positive). assert (P := pos_INR k). unfold gamma.
  apply Rmult_le_pos; [nra | apply Rlt_le, Rinv_0_lt_compat; lra].
Qed.

Lemma gamma_product : forall a b, INR (a + b) * u < 1 ->
  (1 + gamma a precision) * (1 + gamma b precision) <= 1 + gamma (a + b) precision.
Proof.
  intros a b room. assert (U := u_positive). assert (P := pos_INR a). assert (Q := pos_INR b). unfold gamma.
  rewrite plus_INR in *. set (p := INR a) in *. set (q := INR b) in *.
  assert (0 <= p * u) by (apply Rmult_le_pos; lra). assert (0 <= q * u) by (apply Rmult_le_pos; lra).
  replace (1 + p * u / (1 - p * u)) with (/ (1 - p * u)) by (field; lra).
  replace (1 + q * u / (1 - q * u)) with (/ (1 - q * u)) by (field; lra).
  replace (1 + (p + q) * u / (1 - (p + q) * u)) with (/ (1 - (p + q) * u)) by (field; lra).
  rewrite <- Rinv_mult. apply Rinv_le_contravar; [lra|]. nra.
Qed.

Lemma gamma_one : INR 1 * u < 1 -> 1 + u <= 1 + gamma 1 precision.
Proof.
  intros room. assert (U := u_positive). unfold gamma. replace (INR 1) with 1 in * by reflexivity.
  apply Rplus_le_compat_l. apply Rmult_le_reg_r with (1 - 1 * u); [lra|].
  replace (1 * u / (1 - 1 * u) * (1 - 1 * u)) with u by (field; lra). nra.
Qed.

Lemma nonzero_below : forall x y, Rabs x <= y -> nonzero x <= nonzero y.
Proof.
  intros x y le. destruct (nonzero_cases x) as [[_ ->]|[other ->]], (nonzero_cases y) as [[zero ->]|[_ ->]]; try lra.
  apply Rabs_pos_lt in other. lra.
Qed.

Lemma power_below : forall n h, (n <= h)%nat -> INR h * u < 1 -> 1 <= (1 + u) ^ n <= 1 + gamma h precision.
Proof.
  intros n h le room. assert (U := u_positive). assert (G := gamma_power n h le room).
  split; [apply pow_R1_Rle; lra | lra].
Qed.

Lemma u_half : u <= / 2.
Proof. replace (/ 2) with (/ 2 ^ 1) by (simpl; f_equal; ring). apply u_small. exact precise. Qed.

(* One more rounding of what is within r of b relatively, and within a absolutely. *)
Lemma fl_after : forall v b r a, 0 <= b -> 0 <= r -> Rabs (v - b) <= r * b + a ->
  Rabs (rounded v - b) <= ((1 + r) * (1 + u) - 1) * b + ((1 + u) * a + eta / 2).
Proof.
  intros v b r a bpos rpos near. assert (U := u_positive). assert (F := fl_error v).
  replace (rounded v - b) with ((rounded v - v) + (v - b)) by ring. eapply Rle_trans; [apply Rabs_triang|].
  assert (size : Rabs v <= b + (r * b + a)).
  { replace v with (b + (v - b)) by ring. eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_right b); lra. }
  apply (Rmult_le_compat_l u) in size; lra.
Qed.

(* The same for a number of any sign. *)
Lemma fl_after_signed : forall v b s r a, 0 <= r -> Rabs b <= s -> Rabs (v - b) <= r * s + a ->
  Rabs (rounded v - b) <= ((1 + r) * (1 + u) - 1) * s + ((1 + u) * a + eta / 2).
Proof.
  intros v b s r a rpos size near. assert (U := u_positive). assert (F := fl_error v).
  replace (rounded v - b) with ((rounded v - v) + (v - b)) by ring. eapply Rle_trans; [apply Rabs_triang|].
  assert (reach : Rabs v <= s + (r * s + a)).
  { replace v with (b + (v - b)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
  apply (Rmult_le_compat_l u) in reach; lra.
Qed.

(* Terms with one product each, by a weight that is 1/n within two roundings: what rounding them and the weights costs. *)
Lemma weighted_terms : forall o n h (x sent tol w : nat -> R), (0 < n)%nat -> INR (h + 3) * u < 1 ->
  (forall i, (i < n)%nat -> Rabs (x i - sent i) <= tol i) ->
  (forall i, (i < n)%nat -> Rabs (w i - / INR n) <= gamma 2 precision / INR n) ->
  (forall i, (i < n)%nat -> roundings o i <= 1 + INR h) ->
  bigsum n (fun i => w i * (((1 + u) ^ longest_path false o i - 1) * Rabs (x i)))
    + bigsum n (fun i => Rabs (w i * x i - sent i / INR n))
  <= bigsum n (fun i => gamma (h + 3) precision / INR n * (Rabs (sent i) + tol i) + tol i / INR n).
Proof.
  intros o n h x sent tol w some room near weights paths. assert (U := u_positive). assert (H := pos_INR h).
  assert (count : 0 < INR n) by (apply lt_0_INR; exact some).
  assert (over : 0 < / INR n) by (apply Rinv_0_lt_compat; exact count).
  assert (in_room : forall k, (k <= h + 3)%nat -> INR k * u < 1).
  { intros k le. apply le_INR in le. apply Rle_lt_trans with (INR (h + 3) * u); [|exact room].
    apply Rmult_le_compat_r; lra. }
  assert (three : (1 + gamma 2 precision) * (1 + gamma (h + 1) precision) <= 1 + gamma (h + 3) precision).
  { replace (h + 3)%nat with (2 + (h + 1))%nat by lia. apply gamma_product. apply in_room. lia. }
  assert (g2 := gamma_nonneg 2 (in_room 2%nat ltac:(lia))).
  assert (g1 := gamma_nonneg (h + 1) (in_room (h + 1)%nat ltac:(lia))).
  rewrite <- bigsum_plus. apply bigsum_le. intros i le.
  assert (pk : (longest_path false o i <= h + 1)%nat).
  { apply INR_le. rewrite plus_INR. assert (P := paths i le). unfold roundings in P. simpl. lra. }
  assert (G := gamma_power (longest_path false o i) (h + 1) pk (in_room (h + 1)%nat ltac:(lia))).
  assert (one : 1 <= (1 + u) ^ longest_path false o i) by (apply pow_R1_Rle; lra).
  assert (W := within _ _ (weights i le)). assert (X := Rabs_pos (x i)).
  assert (S : Rabs (x i) <= Rabs (sent i) + tol i).
  { replace (x i) with (sent i + (x i - sent i)) by ring. eapply Rle_trans; [apply Rabs_triang|].
    assert (R := near i le). lra. }
  set (n' := / INR n) in *. unfold Rdiv in *. fold n' in W |- *. set (P := (1 + u) ^ longest_path false o i) in *.
  assert (amount : 0 <= (P - 1) * Rabs (x i)) by (apply Rmult_le_pos; lra).
  assert (first : w i * ((P - 1) * Rabs (x i))
    <= (1 + gamma 2 precision) * n' * (gamma (h + 1) precision * Rabs (x i))).
  { apply Rle_trans with ((1 + gamma 2 precision) * n' * ((P - 1) * Rabs (x i))).
    - apply Rmult_le_compat_r; lra.
    - apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|]. apply Rmult_le_compat_r; lra. }
  assert (second : Rabs (w i * x i - sent i * n') <= gamma 2 precision * n' * Rabs (x i) + tol i * n').
  { replace (w i * x i - sent i * n') with ((w i - n') * x i + (x i - sent i) * n') by ring.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult, (Rabs_right n') by lra.
    apply Rplus_le_compat; apply Rmult_le_compat_r; auto; try lra; apply (weights i le). }
  assert (third : ((1 + gamma 2 precision) * (1 + gamma (h + 1) precision) - 1) * (n' * Rabs (x i))
    <= gamma (h + 3) precision * (n' * (Rabs (sent i) + tol i))).
  { apply Rmult_le_compat; [nra | apply Rmult_le_pos; lra | lra | apply Rmult_le_compat_l; lra]. }
  lra.
Qed.

(* What such terms lose to underflow: no input is loose, and a zero loses nothing. *)
Lemma weighted_spills : forall o n h (x sent tol loose : nat -> R), INR (h + 3) * u < 1 ->
  (forall i, (i < n)%nat -> Rabs (x i - sent i) <= tol i) ->
  (forall i, (i < n)%nat -> loose i = 0) ->
  (forall i, (i < n)%nat -> roundings o i <= 1 + INR h) ->
  (forall i, (i < n)%nat -> products o i <= 1) ->
  bigsum n (fun i => (1 + u) ^ longest_path false o i *
                     (loose i + INR (longest_path true o i) * nonzero (Rabs (x i))))
  <= (1 + gamma (h + 3) precision) * bigsum n (fun i => nonzero (Rabs (sent i) + tol i)).
Proof.
  intros o n h x sent tol loose room near tight paths once. assert (U := u_positive).
  assert (g3 := gamma_nonneg (h + 3) room). rewrite <- bigsum_scal. apply bigsum_le. intros i le.
  assert (pk : (longest_path false o i <= h + 3)%nat).
  { apply INR_le. rewrite plus_INR. assert (P := paths i le). unfold roundings in P. simpl. lra. }
  assert (G := gamma_power (longest_path false o i) (h + 3) pk room).
  assert (one : 1 <= (1 + u) ^ longest_path false o i) by (apply pow_R1_Rle; lra).
  assert (single := once i le). unfold products in single. assert (Q := pos_INR (longest_path true o i)).
  assert (S : Rabs (x i) <= Rabs (sent i) + tol i).
  { replace (x i) with (sent i + (x i - sent i)) by ring. eapply Rle_trans; [apply Rabs_triang|].
    assert (R := near i le). lra. }
  rewrite (tight i le), nonzero_abs. assert (some := nonzero_below _ _ S).
  destruct (nonzero_cases (x i)) as [[_ ->]|[_ one_in]]; [|rewrite one_in in *].
  - rewrite Rmult_0_r, Rplus_0_r, Rmult_0_r. apply Rmult_le_pos; [lra|].
    destruct (nonzero_cases (Rabs (sent i) + tol i)) as [[_ ->]|[_ ->]]; lra.
  - apply Rmult_le_compat; lra.
Qed.

(* A sum of d numbers of the format. *)
Theorem sum_error : forall o x d h, (forall k, (k < d)%nat -> rounded (x k) = x k) ->
  (forall y, reads o y = bigsum d (fun k => y k)) -> (forall y, exact o y = bigsum d (fun k => y k)) ->
  (forall k, (k < d)%nat -> roundings o k <= INR h) -> (forall k, (k < d)%nat -> products o k <= 0) -> INR h * u < 1 ->
  Rabs (computed precision least o x - bigsum d x) <= gamma h precision * bigsum d (fun k => Rabs (x k)).
Proof.
  intros o x d h form once sums paths none room.
  set (loose := fun k => if Nat.ltb k d then 0 else 1).
  assert (loosely : forall k, loose k = 1 \/ loose k = 0 /\ rounded (x k) = x k).
  { intros k. unfold loose. destruct (Nat.ltb_spec k d); [right; split; auto | auto]. }
  assert (bound := order_error o x loose loosely). rewrite !sums, once in bound.
  assert (dry : bigsum d (fun k => (1 + u) ^ longest_path false o k *
                 (loose k + INR (longest_path true o k) * nonzero (Rabs (x k)))) = 0).
  { rewrite (bigsum_ext d _ (fun _ => 0)); [rewrite bigsum_const; ring|].
    intros k le. unfold loose. destruct (Nat.ltb_spec k d); [|lia].
    assert (P := pos_INR (longest_path true o k)). assert (N := none k le). unfold products in N.
    replace (INR (longest_path true o k)) with 0 by lra. ring. }
  rewrite dry, Rmult_0_r, Rplus_0_r in bound. eapply Rle_trans; [exact bound|]. rewrite <- bigsum_scal.
  apply bigsum_le. intros k le. apply Rmult_le_compat_r; [apply Rabs_pos|]. apply gamma_power; [|exact room].
  apply INR_le. apply (paths k le).
Qed.

(* A sum of d products x_k >= 0, each rounded or fused with an addition. *)
Theorem products_error : forall o x d h, (forall k, (k < d)%nat -> 0 <= x k) ->
  (forall y, reads o y = bigsum d (fun k => y k)) -> (forall y, exact o y = bigsum d (fun k => y k)) ->
  (forall k, (k < d)%nat -> roundings o k <= INR h) -> (forall k, (k < d)%nat -> products o k <= 1) -> INR h * u < 1 ->
  (bigsum d x = 0 -> computed precision least o x = 0) /\
  Rabs (computed precision least o x - bigsum d x)
    <= gamma h precision * bigsum d x + (1 + gamma h precision) * (INR d * eta).
Proof.
  intros o x d h pos once sums paths one room. assert (H := eta_positive). split.
  - intros zero. apply reads_zero. rewrite once. rewrite <- zero. apply bigsum_ext. intros k le.
    apply Rabs_right. apply Rle_ge, pos, le.
  - assert (bound := order_error o x (fun _ => 1) (fun k => or_introl eq_refl)). rewrite !sums, once in bound.
    eapply Rle_trans; [exact bound|]. apply Rplus_le_compat.
    + rewrite <- bigsum_scal. apply bigsum_le. intros k le. rewrite Rabs_right by (apply Rle_ge, pos, le).
      apply Rmult_le_compat_r; [apply pos, le|]. apply gamma_power; [|exact room]. apply INR_le. apply (paths k le).
    + rewrite <- bigsum_const, <- !bigsum_scal. apply bigsum_le. intros k le.
      assert (P := pos_INR (longest_path true o k)). assert (N := one k le). unfold products in N.
      assert (Q := power_below (longest_path false o k) h (INR_le _ _ (paths k le)) room).
      assert (Z : 0 <= nonzero (Rabs (x k)) <= 1) by (destruct (nonzero_cases (Rabs (x k))) as [[_ ->]|[_ ->]]; lra).
      assert (T : 0 <= 1 + INR (longest_path true o k) * nonzero (Rabs (x k)) <= 2) by nra.
      assert ((1 + u) ^ longest_path false o k * (1 + INR (longest_path true o k) * nonzero (Rabs (x k)))
        <= (1 + gamma h precision) * 2) by (apply Rmult_le_compat; lra).
      assert (E : 0 <= eta / 2) by lra. apply (Rmult_le_compat_l (eta / 2)) in H0; [|exact E]. lra.
Qed.

End format.
