(* Cauchy and Schwarz for means. No definitions, only lemmas. *)
From Onebit Require Export Prelude.

Lemma weighted_cauchy_schwarz : forall n p f g, (forall w, (w < n)%nat -> 0 <= p w) ->
  bigsum n (fun w => p w * (f w * g w)) ^ 2 <= bigsum n (fun w => p w * f w ^ 2) * bigsum n (fun w => p w * g w ^ 2).
Proof.
  intros n p f g weights.
  pose proof (bigsum_cauchy_schwarz n (fun w => sqrt (p w) * f w) (fun w => sqrt (p w) * g w)) as bound. cbv beta in bound.
  assert (root : forall w, (w < n)%nat -> sqrt (p w) * sqrt (p w) = p w) by (intros; apply sqrt_sqrt, weights; assumption).
  rewrite (bigsum_ext n (fun w => p w * (f w * g w)) (fun w => sqrt (p w) * f w * (sqrt (p w) * g w)))
    by (intros w below; rewrite <- (root w below) at 1; ring).
  rewrite (bigsum_ext n (fun w => p w * f w ^ 2) (fun w => (sqrt (p w) * f w) ^ 2))
    by (intros w below; rewrite <- (root w below) at 1; ring).
  rewrite (bigsum_ext n (fun w => p w * g w ^ 2) (fun w => (sqrt (p w) * g w) ^ 2))
    by (intros w below; rewrite <- (root w below) at 1; ring).
  exact bound.
Qed.
