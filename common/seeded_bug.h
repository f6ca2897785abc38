/* seeded_bug.h: deliberate defects. The tests switch them on to prove that the tests would find such defects.
 *
 * `SEEDED_BUG(name)` stands in the product's code at the place of the defect. In every installed build it is the
 * constant `false`, and the compiler removes the defect (tests/sim/bugs checks the symbols of libraries and programs).
 * The tests compile core, storage and proto once more with TARRY_SEEDED_BUGS. The environment variable TARRY_SEEDED_BUG
 * then selects one bug by name, for the life of the process (tests/sim/bugs/seeded_bug.c).
 *
 * A line of the list: name, the promise of DESIGN.md that the bug breaks, and the defect in words.
 * tests/sim/bugs/README.md lists the test that catches each bug, and the number of histories that the test needs. */
#ifndef TARRY_PROTO_SEEDED_BUG_H
#define TARRY_PROTO_SEEDED_BUG_H

/* clang-format off */
#define SEEDED_BUGS(BUG) \
    /* broker/core: time */ \
    BUG(ready_early, "TIME-1", "a task is ready one millisecond before it is due") \
    BUG(wheel_early, "TIME-1", "the wheel opens a slot one tick before it begins") \
    BUG(deadline_rounded_down, "TIME-1", "fractions of a millisecond are cut off deadlines") \
    BUG(cascade_drops_timer, "KEEP-1", "a timer is lost on its way to a lower level of the wheel") \
    BUG(delay_on_wall_clock, "TIME-2", "a delay follows the wall clock, and its jumps") \
    BUG(replay_stops_clock, "TIME-2", "time does not move while the log is replayed") \
    BUG(stall_unseen, "TIME-2", "what came while the process was stopped is judged by when it was read") \
    BUG(stall_awake_unseen, "TIME-2", "a process that was stopped while the core had something to do, or waited for its disk, was not stopped") \
    BUG(stall_slept_through, "TIME-2", "the deadline that the core slept towards comes before what lay in the sockets") \
    BUG(lateness_ignored, "TIME-1", "a delay that was asked of a stopped process counts from when the stop began") \
    /* broker/core: commits and answers */ \
    BUG(reply_before_sync, "LOG-1", "a reply waits for no position") \
    BUG(delivery_before_sync, "LOG-1", "a delivery leaves before its lease is durable") \
    BUG(resend_before_sync, "LOG-1", "what is sent again to a session that came back waits for no position") \
    BUG(wrong_before_hash, "LOG-2", "a record carries a wrong hash of what it replaces") \
    BUG(retry_executed_again, "ONCE-1", "a commit that is repeated takes effect again") \
    BUG(retry_gets_other_answer, "ONCE-1", "a commit that comes late gets the answer of a later one") \
    BUG(floor_ignored, "ONCE-1", "a sequence that is forgotten is executed, not refused") \
    BUG(dedupe_lost_at_restart, "ONCE-1", "what the index knows of answered commits is not restored") \
    BUG(atomic_in_part, "KEEP-1", "an atomic commit that was refused takes effect in part") \
    BUG(aborted_answer_stale, "TRUE-1", "a refusal rests on what another operation of an aborted commit would have done") \
    BUG(cancel_denies_delivery, "TRUE-1", "cancelled, deliveries = 0 is said of what was delivered") \
    BUG(holder_forgotten, "TRUE-1", "after a delivery that never left nobody knows who had the task before") \
    BUG(unknown_without_since, "TRUE-1", "an answer unknown does not say since when endings are known") \
    BUG(outcome_forgotten, "TRUE-1", "an ending is forgotten long before its retention is over") \
    BUG(place_taken_early, "TRUE-1", "another queue takes the place of a queue whose endings are remembered") \
    BUG(former_queue_restored, "LOG-2", "a start takes a former queue for the one that has its place") \
    BUG(former_counts_left, "LOG-2", "the index keeps the counts of a former queue beside those of the queue that has its place") \
    BUG(known_since_stuck, "TRUE-1", "known_since does not grow when an ending is forgotten") \
    BUG(stale_token_accepted, "FENCE-1", "any token of the epoch settles the task") \
    BUG(capacity_unchecked, "CAP-1", "a commit is taken however far the index lags behind") \
    BUG(every_dead_letter_counts, "CAP-1", "a commit needs memory for each dead letter that was read for it") \
    BUG(pending_count_stale, "CAP-1", "what a principal has pending is not counted when tasks end") \
    BUG(list_page_not_filled, "TRUE-1", "a page of a list ends after its first read, however few of its tasks match") \
    BUG(dead_holds_key, "KEEP-1", "a dead task keeps its key from the living") \
    BUG(requeue_onto_live_key, "KEEP-1", "a dead task is revived onto a key that another has") \
    BUG(requeue_all_onto_live_key, "KEEP-1", "requeueing all revives a task onto a key that another has") \
    BUG(purge_takes_younger, "KEEP-1", "a purge takes what was scheduled after it was asked for") \
    BUG(job_takes_ended, "KEEP-1", "a purge ends a task that ended since its page was read") \
    /* broker/core: deliveries and leases */ \
    BUG(paused_served, "KEEP-1", "a paused queue delivers") \
    BUG(pause_lost_at_restart, "KEEP-1", "a queue that was paused delivers after a restart") \
    BUG(expired_delivered, "KEEP-1", "an expired task is delivered") \
    BUG(priority_ignored, "KEEP-1", "what is due first goes first, whatever its priority") \
    BUG(prefetch_ignored, "CALM-1", "a consumer gets more than it asked to hold") \
    BUG(lease_lost_in_recovery, "KEEP-1", "a lease that the index knows is not restored") \
    BUG(lease_outlives_ack, "KEEP-1", "the deadline of a lease stays armed when the task is settled") \
    BUG(lease_cut_short, "FENCE-1", "a lease ends 400 ms before the deadline that its consumer was told") \
    BUG(lost_lease_is_free, "KEEP-1", "a lost lease costs no attempt") \
    BUG(release_costs_attempt, "KEEP-1", "a task that was given back unseen loses an attempt") \
    BUG(sent_taken_for_unsent, "TRUE-1", "a delivery that left counts as never delivered") \
    BUG(claims_stay_open, "KEEP-1", "leases of before a restart are never given back") \
    BUG(departs_early, "TIME-1", "what was leased ahead of time leaves a millisecond before it is due") \
    BUG(resent_early, "TIME-1", "what was leased ahead of time and is sent again after a restart is not waited for") \
    BUG(ahead_seen_as_leased, "TRUE-1", "a task that was leased ahead of time and is still here counts as in flight") \
    BUG(question_withdraws, "TRUE-1", "a question about a task withdraws its lease ahead of time") \
    BUG(paused_departs, "KEEP-1", "a paused queue delivers what was leased ahead of time") \
    BUG(ahead_overtakes, "KEEP-1", "what was leased ahead of time leaves before what waits longer") \
    BUG(ahead_overtaken, "KEEP-1", "what is leased when it is due leaves before what was leased ahead of time and waits longer") \
    BUG(ahead_overtaken_stays, "CALM-1", "a lease ahead of time that is overtaken when it is due is not withdrawn") \
    BUG(ahead_narrow_for_good, "CALM-1", "a queue's time ahead that was halved for want of credit is never doubled again") \
    BUG(settled_unserved, "CALM-1", "what a window has brought waits for the next event") \
    BUG(ahead_keeps_credit, "KEEP-1", "a lease ahead of time keeps the last credit from what is due") \
    BUG(ahead_never_narrowed, "KEEP-1", "tasks are leased ahead of time for as long as there is room, and sooner ones find none") \
    BUG(ahead_late_taken_back, "KEEP-1", "what is late is taken back from a consumer that takes what it gets") \
    BUG(lease_names_nobody, "KEEP-1", "the log does not say which consumer got a task") \
    BUG(session_end_unsaid, "KEEP-1", "the log does not say that a session has ended") \
    BUG(astray_unsaid, "KEEP-1", "a consumer that has missed that its session got another lane is never told") \
    BUG(nack_reason_dropped, "KEEP-1", "the reason of a nack is lost when the task is tried again") \
    BUG(record_after_stop, "KEEP-1", "the log goes on after it said that the broker has stopped") \
    BUG(pooled_given_back, "KEEP-1", "what is held behind a pooled session is given back after a restart") \
    BUG(pool_left_returned, "KEEP-1", "what is held behind a pooled session is given back when the session leaves") \
    BUG(pooled_sent_again, "FENCE-1", "what others hold behind a pooled session is sent again when the session comes back") \
    BUG(credit_ignored, "CALM-1", "a delivery to a pooled session has more tasks than those who wait asked for") \
    /* broker/core: what is in memory */ \
    BUG(facts_unbounded, "CALM-1", "rows for a request are read however much memory they take") \
    BUG(facts_win, "LOG-3", "a row that was read wins over what memory knows") \
    BUG(loaded_row_wins, "LOG-3", "a loaded row is taken although memory has the task") \
    BUG(trimmed_past_hold, "LOG-3", "the overlay is trimmed past what is being read") \
    BUG(tombstone_dropped, "LOG-3", "a tombstone goes while a row may still be on its way") \
    BUG(never_trimmed, "CALM-1", "what the index has absorbed stays in the overlay") \
    BUG(stale_window_taken, "KEEP-1", "a window is taken although the horizon fell while it was read") \
    BUG(horizon_too_far, "KEEP-1", "a window moves the horizon beyond what it loaded") \
    BUG(far_left_behind, "KEEP-1", "the horizon moves and what lies before it stays far") \
    BUG(change_unseen_by_list, "TRUE-1", "what changes while a List is looked into is not offered to it") \
    BUG(trimmed_unseen_by_list, "TRUE-1", "what is trimmed while a List is looked into is missing in it") \
    BUG(staged_timers_stay, "TIME-1", "a slot opens, and some of what was prepared of it stays behind") \
    BUG(cached_content_stays, "CALM-1", "a content in memory is not given up when its task ends") \
    BUG(clocks_put_forward_apart, "TIME-1", "steady time is put forward to what was seen, and the wall clock is not") \
    BUG(evicted_overtaken, "KEEP-1", "what a sweep has not come to leaves before what it has put aside") \
    BUG(promotion_overtaken, "KEEP-1", "what was loaded is delivered before what is due earlier and not placed yet") \
    BUG(evicted_dirty, "KEEP-1", "eviction frees what the index does not have yet") \
    /* proto */ \
    BUG(tally_counts_dead_as_live, "KEEP-1", "a buried task is still counted as live") \
    BUG(header_sum_unchecked, "LOG-5", "the sum of a frame's header is not compared") \
    /* storage: the log */ \
    BUG(time_lost_at_restart, "TIME-2", "recovery does not tell the time of the last frame") \
    BUG(sync_skipped, "LOG-1", "the log says durable without fdatasync") \
    BUG(sync_retried, "LOG-4", "a failed fdatasync is tried again, and believed") \
    BUG(error_not_latched, "LOG-4", "after a failed write the log goes on") \
    BUG(short_write_enough, "LOG-4", "a write that was cut short counts as done") \
    BUG(claims_too_much, "LOG-5", "a frame claims that all before it is durable") \
    BUG(feigned_erasure_accepted, "LOG-5", "a frame that the index does not know may say that its contents were erased") \
    BUG(erasure_before_flag, "LOG-5", "a content is erased before its frame says so") \
    BUG(claim_ignored, "LOG-5", "the log is cut in the middle, whatever later frames claim") \
    BUG(lost_tail_accepted, "LOG-3", "an index that is ahead of the log is not refused") \
    BUG(chain_unchecked, "LOG-5", "a frame of another history is accepted") \
    BUG(contents_unchecked, "LOG-5", "the sum of a frame's contents is not compared") \
    BUG(body_unchecked_by_cursor, "LOG-5", "a reader does not compare the sum of a frame's body") \
    BUG(padding_unchecked, "LOG-5", "the bytes that fill up a frame may be anything") \
    BUG(cut_not_zeroed, "LOG-5", "what recovery cuts stays on the disk") \
    BUG(kept_not_synced, "LOG-1", "what recovery keeps is not written and synced again") \
    BUG(closed_segment_cut, "LOG-5", "damage in a closed segment is taken for a torn tail") \
    BUG(gap_accepted, "LOG-5", "a missing segment is not noticed") \
    BUG(middle_of_frame_accepted, "LOG-3", "a position in the middle of a frame is good enough for the index") \
    BUG(segment_unsynced, "LOG-1", "a segment gets its name before its header is synced") \
    BUG(directory_unsynced_at_roll, "LOG-1", "a new segment's name is not synced") \
    BUG(directory_unsynced_at_start, "LOG-1", "the names that recovery found are not synced") \
    BUG(parent_unsynced, "LOG-1", "the new log directory is not synced into its parent") \
    BUG(directory_unsynced_at_retirement, "LOG-5", "a retired segment's name is not synced away") \
    BUG(cursor_passes_limit, "LOG-3", "a reader gets frames that are not durable yet") \
    BUG(retired_before_index, "LOG-3", "a segment may go before the index has absorbed it") \
    BUG(copied_unchained, "LOG-5", "a follower takes frames that do not continue its log") \
    BUG(copied_ahead_of_sync, "LOG-5", "a follower writes a frame before what the frame says is durable") \
    BUG(cut_forgets_tail, "KEEP-1", "what is cut off is not put aside") \
    BUG(cut_below_index, "LOG-3", "what the index has absorbed is cut off") \
    BUG(cut_unsynced, "LOG-5", "a segment goes before the one behind it is gone for good") \
    BUG(aside_unsynced, "KEEP-1", "a tail is cut off before the name that it lies aside under is durable") \
    BUG(cut_keeps_mark, "LOG-5", "the note of how far the log is durable outlives a cut") \
    BUG(cut_unseen_by_readers, "LOG-3", "a reader goes on with what it had read before a cut") \
    BUG(mark_missing, "LOG-5", "a frame that was copied without its contents is not noted as durable") \
    BUG(served_unchecked, "LOG-5", "frames are handed to a follower without a look at their sums") \
    BUG(seal_too_soon, "LOG-5", "the seal does not wait until everything before it is durable") \
    BUG(seal_missing, "LOG-5", "no seal follows the last batch") \
    /* engine: the turn of the core, and what it lacks */ \
    BUG(judged_when_handled, "TIME-2", "an item is judged by when it was handled, not by when it was received") \
    BUG(start_judged_earlier, "TIME-2", "who leads as it wakes up begins at the time when it was stopped") \
    BUG(put_off_forgotten, "TRUE-1", "what was put off while a leader handed over is never taken") \
    BUG(paused_uncommitted, "R8", "a leader says that it has paused before what it decided is committed") \
    BUG(taken_after_close, "KEEP-1", "items are taken after the last record") \
    BUG(closed_undrained, "KEEP-1", "the last record is written while requests are under way") \
    BUG(taken_while_paused, "R8", "a leader that hands over goes on deciding") \
    BUG(stop_waits_for_batch, "CALM-1", "a broker that stops waits for a batch whose follower never comes") \
    BUG(room_on_the_way_out_unseen, "KEEP-1", "nothing is delivered again once there is room on the way out") \
    BUG(read_without_hold, "LOG-3", "the index is read for the core without a hold") \
    BUG(stepped_without_facts, "KEEP-1", "a request is stepped without what the index knows of it") \
    BUG(window_piece_reaches_all, "KEEP-1", "a piece of a window claims to reach as far as the whole") \
    BUG(hold_kept, "CALM-1", "a hold is not given back when its request ends") \
    /* engine: lanes */ \
    BUG(turn_stays, "TRUE-1", "a lane that changes hands is still in its former holder's turn") \
    BUG(former_turn_sent, "TRUE-1", "a delivery of a former turn begins to leave") \
    BUG(former_turn_leaves, "TRUE-1", "a delivery of a former turn goes on leaving") \
    BUG(former_turn_told, "TRUE-1", "what became of a former turn's delivery is told of the lane's next one") \
    BUG(former_turn_heard, "KEEP-1", "a connection on the lane that a session had is taken for one on that which it has") \
    BUG(unsent_untold, "KEEP-1", "nobody is told that a delivery never left") \
    BUG(stranger_on_lane, "TRUE-1", "a session connects to another one's lane") \
    BUG(former_connection_counts, "KEEP-1", "the end of a former connection is taken for the holder's") \
    /* engine: what leaves */ \
    BUG(released_one_early, "LOG-1", "an answer or a delivery leaves one frame before the log is durable") \
    BUG(released_unconfirmed, "TRUE-1", "a question is answered though nobody confirmed that this node still leads") \
    BUG(told_ahead_of_reached, "LOG-1", "who subscribes to the gate hears of positions that have not been reached") \
    BUG(released_before_sync, "LOG-1", "a group leaves before it is synced") \
    BUG(single_frame_unsynced, "LOG-1", "a group of one frame is not synced") \
    BUG(failed_sync_released, "LOG-4", "a group whose sync failed leaves as if it were durable") \
    /* engine: what is read before it leaves */ \
    BUG(content_sum_unlooked, "LOG-5", "a content that rotted is delivered") \
    BUG(answer_sum_unlooked, "ONCE-1", "a recorded answer that rotted is given again") \
    BUG(retired_content_gone, "KEEP-1", "what the index took over from a retired segment counts as gone") \
    BUG(overdue_lease_leaves, "TIME-2", "a task leaves though its lease is over") \
    BUG(erased_content_leaves, "LOG-5", "a content leaves though it may have been erased while it was read") \
    /* engine: the reserve of the disk */ \
    BUG(reserve_given_away, "CAP-1", "new tasks are taken while the disk has nothing left for acks") \
    /* engine: retention and erasing */ \
    BUG(retired_unmoved, "LOG-3", "a segment is retired before what lives in it has moved") \
    BUG(removed_before_commit, "LOG-3", "a segment is removed before the transaction that replaces it") \
    BUG(retired_unarchived, "LOG-3", "a segment is retired before the archive has it") \
    BUG(follower_forgotten, "LOG-3", "a segment is retired that the follower still needs") \
    BUG(retired_while_erasing, "LOG-5", "a segment is retired while contents are being erased") \
    BUG(reported_unerased, "LOG-5", "a redaction is reported before its content is erased") \
    BUG(archive_unerased, "LOG-5", "a redaction is reported while the archive still has the content") \
    BUG(erased_while_copied, "LOG-5", "contents are erased while a segment of them is being archived") \
    BUG(erased_while_retiring, "LOG-5", "contents are erased while a segment of them is being retired") \
    /* engine: recovery */ \
    BUG(missing_segments_accepted, "LOG-3", "a log that lacks contents which the index refers to is not refused") \
    BUG(results_unrestored, "ONCE-1", "recovery leaves out the answers that the index knows") \
    BUG(tail_unreplayed, "LOG-1", "recovery leaves out what the index has not absorbed") \
    BUG(time_of_index_ignored, "TIME-2", "after a start time goes on from the log's tail, though it holds nothing") \
    BUG(epoch_kept, "FENCE-1", "a start goes on in the epoch of the last one") \
    BUG(replayed_before_restored, "LOG-3", "recovery replays the log before it has restored what the index knows") \
    /* engine: the index's schedule */ \
    BUG(absorbed_ahead, "LOG-3", "the index absorbs what is not durable yet") \
    BUG(maintained_after_commits_alone, "CAP-1", "what the index puts off for a while waits for a commit") \
    BUG(indexed_told_of_absorbed, "LOG-3", "the core hears of a position before it is committed") \
    BUG(filter_behind_core, "LOG-3", "the core forgets what the filter of keys does not know yet") \
    BUG(told_uncommitted, "LOG-3", "the core hears of a position though the index had no room to commit it") \
    /* storage: retirement and the index */ \
    BUG(content_dropped, "KEEP-1", "the content of a living task goes with its segment") \
    BUG(answer_dropped, "ONCE-1", "an answer that may be asked for goes with its segment") \
    BUG(content_left_behind, "CALM-1", "the copy of a large content stays when its task ends") \
    BUG(swept_never, "CAP-1", "rows of ended tasks are never deleted") \
    BUG(swept_content_stays, "CALM-1", "the copy of a small content stays when the row of its task goes") \
    BUG(position_apart, "LOG-3", "the index's position is not in the transaction of its data") \
    BUG(ended_bits_unwritten, "LOG-3", "the bitmap of ended ids is not written") \
    BUG(ended_row_found, "LOG-3", "a row of an ended task is found until it is swept away") \
    BUG(filter_late, "LOG-3", "the filters of a commit are published one commit late") \
    BUG(unread_filter_denies, "LOG-3", "a filter that is not read yet says that it has never seen a key") \
    BUG(unread_run_passed_over, "LOG-3", "keys are not looked for in a run whose filter is not read yet") \
    BUG(tail_key_lost, "LOG-3", "the last key of a full tail does not reach the run") \
    BUG(merge_drops_key, "LOG-3", "a merge loses the last key of each of its inputs") \
    BUG(calendar_keeps_moved, "TRUE-1", "a moved task stays where it was in the calendar, too") \
    BUG(read_ahead_kept, "KEEP-1", "a window is taken from what was read before a commit added to the line") \
    BUG(row_kept_ahead, "LOG-3", "a window gives a row that was read ahead as it was before a commit changed it") \
    BUG(moved_entry_missing, "KEEP-1", "a moved task gets no entry in its new slot") \
    BUG(stale_entry_taken, "LOG-3", "a slot's entry is taken without a look at its row") \
    BUG(cascade_deletes_only, "KEEP-1", "a slot that moves to a lower level loses its first entry") \
    BUG(advice_trusted, "KEEP-1", "entries below the core's advice go unseen") \
    BUG(redaction_forgotten, "LOG-3", "a redaction does not reach the table of what is to be erased") \
    BUG(kept_content_in_clear, "LOG-3", "a content moves into the index as it is, not under its key") \
    BUG(key_kept, "LOG-3", "the key of a redacted content that was moved into the index is not destroyed") \
    BUG(former_keyring_left, "LOG-3", "the keyring that another has replaced is not overwritten") \
    BUG(seal_uncompared, "LOG-3", "the checksum of a row is not compared") \
    BUG(settled_lease_stays, "LOG-3", "the leased copy of a row stays when the lease is over") \
    BUG(ending_forgotten_silently, "TRUE-1", "the index drops an ending and known_since does not grow") \
    BUG(result_forgotten_early, "ONCE-1", "the index forgets the answer at the floor too") \
    /* replication: the leader's half */ \
    BUG(confirmation_not_asked, "CALM-1", "the follower is not asked for the confirmation that somebody waits for") \
    BUG(stall_clock_goes_on, "CALM-1", "a follower that confirms all the while is taken for one that stalls") \
    BUG(stuck_follower_counts, "CALM-1", "a follower that was given up counts again before it has stored anything") \
    BUG(near_by_bytes_alone, "CALM-1", "a follower is waited for that lacks little, and must sync hundreds of times for it") \
    BUG(committed_before_reign, "R6", "a leader tells what is committed before its reign has begun") \
    /* replication: the follower's half */ \
    BUG(copied_unsynced, "LOG-1", "a follower goes on before what it copied is synced") \
    BUG(leader_clock_unheard, "TIME-1", "a follower does not hear what its leader's clock says") \
    BUG(applied_uncommitted, "LOG-3", "a follower applies what is not known to be committed") \
    BUG(committed_not_kept, "LOG-3", "a cut does not keep what is committed") \
    BUG(follower_asks_once, "F-16", "a follower does not ask again after an answer that was lost") \
    BUG(asked_anew, "F-16", "a follower that hears nothing asks anew, and takes no answer that is slower than that") \
    /* replication: reads of the record */ \
    BUG(read_again_at_once, "F-30", "a coordinator that does not answer is asked again at once") \
    BUG(copy_unseen, "F-29", "a leader does not know its own copy") \
    /* replication: silence */ \
    BUG(claim_unprobed, "F-31c", "a leader counts as silent that was not asked") \
    BUG(probe_not_awaited, "F-31c", "a leader counts as silent before it had time to answer a probe") \
    BUG(summons_not_awaited, "F-31c", "a leader that is present counts as absent before it had time to answer by way of the coordinator") \
    BUG(pause_taken_for_silence, "F-13", "a node that stood still takes the other for silent") \
    BUG(pause_taken_for_stall, "F-13", "a leader that stood still takes its follower for one that does not confirm") \
    BUG(pause_taken_for_hung_disk, "F-13", "a leader that stood still in the middle of a sync takes its disk for hung") \
    /* replication: what a follower may answer */ \
    BUG(at_least_unapplied, "TRUE-1", "a follower answers before it has applied what was asked for at least") \
    BUG(word_unapplied, "TRUE-1", "a follower takes for applied what its leader has told of") \
    BUG(begun_unsaid, "TRUE-1", "a leader tells of what it has committed, and not of what was acknowledged before it led") \
    BUG(alone_unrecorded, "KEEP-1", "the log does not say that its leader serves alone")
/* clang-format on */

enum seeded_bug {
    SEEDED_BUG_none,
#define SEEDED_BUG_NUMBER(name, promise, sentence) SEEDED_BUG_##name,
    SEEDED_BUGS(SEEDED_BUG_NUMBER)
#undef SEEDED_BUG_NUMBER
};

#ifdef TARRY_SEEDED_BUGS
extern enum seeded_bug seeded_bug; /* the bug that is switched on */
#define SEEDED_BUG(name) (seeded_bug == SEEDED_BUG_##name)
#else
/* Always false. A name that is not in the list does not compile. */
#define SEEDED_BUG(name) (SEEDED_BUG_none == SEEDED_BUG_##name)
#endif

#endif
