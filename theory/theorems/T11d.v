(* The error of any order of evaluation, each message with one product, then what the stored 1/N is off. *)
From Onebit Require Import Prelude Rounding.

Theorem T11d :
  forall (n_workers : nat) (precision : nat) (least : nat) (order : tree) (inputs : nat -> R) (depth : nat) (sent : nat -> R) (tolerances : nat -> R) (weights : nat -> R) (server_entry : R),
  forall (n_workers_domain : (1 <= n_workers)%nat),
  forall (precision_domain : (1 <= precision)%nat),
  forall (in_format : forall k : nat, (k < (n_workers + 1)%nat)%nat -> (fl precision least (inputs k)) = (inputs k)),
  forall (reads_messages : forall i : nat, (i < n_workers)%nat -> (Rabs ((inputs i) - (sent i))) <= (tolerances i)),
  forall (reads_error : (inputs n_workers) = server_entry),
  forall (weights_stored : forall i : nat, (i < n_workers)%nat -> (Rabs ((weights i) - (/ (INR n_workers)))) <= ((gamma 2%nat precision) / (INR n_workers))),
  forall (read_once : forall x : nat -> R, (reads order x) = ((x n_workers) + (bigsum n_workers (fun i => (x i))))),
  forall (evaluates : forall x : nat -> R, (exact order x) = ((x n_workers) + (bigsum n_workers (fun i => ((weights i) * (x i)))))),
  forall (message_path : forall i : nat, (i < n_workers)%nat -> (roundings order i) <= (1 + (INR depth))),
  forall (error_path : (roundings order n_workers) <= (INR depth)),
  forall (message_product : forall i : nat, (i < n_workers)%nat -> (products order i) <= 1),
  forall (error_product : (products order n_workers) <= 0),
  forall (few : ((3 + (INR depth)) * (unit_roundoff precision)) < 1),
  (Rabs (server_entry + ((bigsum n_workers (fun i => (sent i))) / (INR n_workers)) - (computed precision least order inputs))) <= (((bigsum n_workers (fun i => (tolerances i))) / (INR n_workers)) + ((Rabs server_entry) * (gamma depth precision)) + (((gamma (depth + 3)%nat precision) * (bigsum n_workers (fun i => ((Rabs (sent i)) + (tolerances i))))) / (INR n_workers)) + ((1 + (gamma (depth + 3)%nat precision)) * (smallest_subnormal least) * (bigsum n_workers (fun i => (nonzero ((Rabs (sent i)) + (tolerances i))))))).
Proof.
  intros.
  assert (U := u_positive precision). assert (E := eta_positive least).
  set (u := unit_roundoff precision) in *. set (eta := smallest_subnormal least) in *.
  set (loose := fun k => if Nat.ltb k (n_workers + 1) then 0 else 1).
  assert (loosely : forall k, loose k = 1 \/ loose k = 0 /\ fl precision least (inputs k) = inputs k).
  { intros k. unfold loose. destruct (Nat.ltb_spec k (n_workers + 1)); [right; split; auto | auto]. }
  assert (bound := order_error precision least precision_domain order inputs loose loosely).
  rewrite !evaluates, read_once in bound. cbv beta in bound. fold u eta in bound.
  set (p := longest_path false order) in *. set (q := longest_path true order) in *.
  assert (workers : 0 < INR n_workers) by (apply lt_0_INR; lia).
  assert (room : INR (depth + 3) * u < 1) by (rewrite plus_INR; simpl; lra).
  assert (H := pos_INR depth).
  assert (pn : (p n_workers <= depth)%nat) by (apply INR_le; exact error_path).
  assert (qn : INR (q n_workers) = 0).
  { assert (P := pos_INR (q n_workers)). unfold products in error_product. fold q in error_product. lra. }
  assert (in_room : forall n, (n <= depth + 3)%nat -> INR n * u < 1).
  { intros n le. apply le_INR in le. apply Rle_lt_trans with (INR (depth + 3) * u); [|exact room].
    apply Rmult_le_compat_r; lra. }
  assert (g3 := gamma_nonneg precision (depth + 3) room).
  assert (gh := gamma_nonneg precision depth (in_room depth ltac:(lia))).
  set (gamma3 := gamma (depth + 3) precision) in *. set (gammah := gamma depth precision) in *.
  set (reach := fun i => Rabs (sent i) + tolerances i).
  assert (tight : forall i, (i < n_workers)%nat -> loose i = 0).
  { intros i le. unfold loose. destruct (Nat.ltb_spec i (n_workers + 1)); [reflexivity | lia]. }
  assert (terms := weighted_terms precision precision_domain order n_workers depth inputs sent tolerances weights
    n_workers_domain room reads_messages weights_stored message_path).
  assert (spills := weighted_spills precision order n_workers depth inputs sent tolerances loose
    room reads_messages tight message_path message_product).
  fold u p q gamma3 in terms, spills.
  change (fun i => nonzero (Rabs (sent i) + tolerances i)) with (fun i => nonzero (reach i)) in spills.
  change (fun i => gamma3 / INR n_workers * (Rabs (sent i) + tolerances i) + tolerances i / INR n_workers)
    with (fun i => gamma3 / INR n_workers * reach i + tolerances i / INR n_workers) in terms.
  apply (Rmult_le_compat_l (eta / 2)) in spills; [|lra].
  assert (half : eta / 2 * ((1 + gamma3) * bigsum n_workers (fun i => nonzero (reach i)))
    <= (1 + gamma3) * eta * bigsum n_workers (fun i => nonzero (reach i))).
  { assert (Z : 0 <= bigsum n_workers (fun i => nonzero (reach i))).
    { apply bigsum_nonneg. intros i le. destruct (nonzero_cases (reach i)) as [[_ ->]|[_ ->]]; lra. }
    assert (0 <= eta / 2 * ((1 + gamma3) * bigsum n_workers (fun i => nonzero (reach i))))
      by (repeat apply Rmult_le_pos; lra). lra. }
  (* the server error *)
  assert (server : ((1 + u) ^ p n_workers - 1) * Rabs (inputs n_workers) <= gammah * Rabs server_entry).
  { rewrite reads_error. apply Rmult_le_compat_r; [apply Rabs_pos|].
    apply (gamma_power precision (p n_workers) depth pn). fold u. apply in_room. lia. }
  assert (no_spill : (1 + u) ^ p n_workers * (loose n_workers + INR (q n_workers) * nonzero (Rabs (inputs n_workers))) = 0).
  { rewrite qn. unfold loose. destruct (Nat.ltb_spec n_workers (n_workers + 1)); [ring | lia]. }
  rewrite no_spill, Rplus_0_l in bound. rewrite reads_error in bound, server.
  set (v := computed precision least order inputs) in *.
  assert (moved := bigsum_abs n_workers (fun i => weights i * inputs i - sent i / INR n_workers)).
  rewrite bigsum_minus in moved.
  rewrite bigsum_plus, bigsum_scal in terms.
  assert (div : forall f, bigsum n_workers (fun i => f i / INR n_workers) = bigsum n_workers f / INR n_workers)
    by (intros f; unfold Rdiv; apply bigsum_scal_r).
  rewrite !div in *. change (fun i => sent i) with sent in *. change (fun i => tolerances i) with tolerances in *.
  change (fun i => reach i) with reach in *.
  replace (server_entry + bigsum n_workers sent / INR n_workers - v) with
    (- (v - (server_entry + bigsum n_workers (fun i => weights i * inputs i)))
     - (bigsum n_workers (fun i => weights i * inputs i) - bigsum n_workers sent / INR n_workers)) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_Ropp.
  change (fun i => nonzero (Rabs (sent i) + tolerances i)) with (fun i => nonzero (reach i)).
  unfold Rdiv in *. lra.
Qed.
