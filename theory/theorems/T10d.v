(* Every message is sent N-1 times on the way there and N-1 times on the way back. *)
From Onebit Require Import Prelude Messages.

Theorem T10d :
  forall (n_workers : nat) (dim : nat) (sent : nat -> R) (message : nat -> R) (length : nat -> R) (blocks : nat -> R) (n_blocks : nat),
  forall (n_workers_domain : (1 <= n_workers)%nat),
  forall (dim_domain : (1 <= dim)%nat),
  forall (sent_by_worker : forall i : nat, (i < n_workers)%nat -> (sent i) = ((((INR n_workers) - 1) * (message i)) + (bigsum n_workers (fun j => (message j))) - (message i))),
  forall (payload : forall j : nat, (j < n_workers)%nat -> (message j) = ((4 * (blocks j)) + ((length j) / 8))),
  forall (all_elements : (bigsum n_workers (fun j => (length j))) = (INR dim)),
  forall (all_blocks : (bigsum n_workers (fun j => (blocks j))) = (INR n_blocks)),
  ((bigsum n_workers (fun i => (sent i))) / (INR n_workers)) = (((((INR dim) / 8) + (4 * (INR n_blocks))) * ((2 * (INR n_workers)) - 2)) / (INR n_workers)).
Proof.
  intros n_workers dim sent message length blocks n_blocks n_workers_domain dim_domain sent_by_worker payload
    all_elements all_blocks.
  assert (N : 0 < INR n_workers) by (apply lt_0_INR; lia).
  rewrite (bytes_sent n_workers sent message length blocks dim sent_by_worker payload all_elements).
  change (fun j => blocks j) with blocks in all_blocks. rewrite all_blocks. field. lra.
Qed.
