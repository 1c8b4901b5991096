(* sqrt v >= gamma h/(1/2 - xi), and P is at most its inverse. *)
From Onebit Require Import Prelude .

Theorem T7q :
  forall (lr : R) (curvature : R) (entry : R) (push : R) (floor_share : R) (mean_variance : R) (least_variance : R),
  forall (lr_domain : 0 < lr),
  forall (curvature_domain : 0 < curvature),
  forall (entry_domain : 0 < entry),
  forall (push_domain : 0 <= push /\ push < (1 / 2)),
  forall (floor_share_domain : 0 < floor_share),
  forall (mean_variance_domain : 0 < mean_variance),
  forall (least_variance_domain : 0 < least_variance),
  forall (floored : (floor_share * mean_variance) <= least_variance),
  forall (preconditioned : entry <= (/ (sqrt least_variance))),
  forall (floor_large : (((curvature ^ 2) * (lr ^ 2)) / (mean_variance * (((1 / 2) - push) ^ 2))) <= floor_share),
  (push + (curvature * entry * lr)) <= (1 / 2).
Proof.
  intros lr curvature entry push floor_share mean_variance least_variance lr_domain curvature_domain entry_domain
    push_domain floor_share_domain mean_variance_domain least_variance_domain floored preconditioned floor_large.
  assert (room : 0 < 1 / 2 - push) by lra.
  set (need := curvature * lr / (1 / 2 - push)).
  assert (need_pos : 0 < need) by (apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat; lra | exact room]).
  assert (square : need ^ 2 <= least_variance).
  { eapply Rle_trans; [|exact floored]. apply Rle_trans with
      (curvature ^ 2 * lr ^ 2 / (mean_variance * (1 / 2 - push) ^ 2) * mean_variance).
    - apply Req_le. unfold need. field. lra.
    - apply Rmult_le_compat_r; [lra | exact floor_large]. }
  assert (root : need <= sqrt least_variance).
  { rewrite <- (sqrt_pow2 need) by lra. apply sqrt_le_1_alt. exact square. }
  assert (entry_small : entry * need <= 1).
  { apply Rle_trans with (/ sqrt least_variance * sqrt least_variance).
    - apply Rmult_le_compat; lra.
    - apply Req_le. field. lra. }
  assert (product : curvature * entry * lr = entry * need * (1 / 2 - push)) by (unfold need; field; lra).
  rewrite product. nra.
Qed.
