/* weak.h: deliberate omissions of the pair's rules. With them the model (tests/model) proves that it would detect a
 * broken rule. `WEAK(name)` stands at the code that keeps the rule; outside the model it is the constant false. */
#ifndef TARRY_PAIR_WEAK_H
#define TARRY_PAIR_WEAK_H

/* clang-format off */
#define PAIR_WEAKNESSES(WEAKNESS) \
    WEAKNESS(unpromised, "R2", "a follower counts that has not promised the epoch") \
    WEAKNESS(unfit, "R2", "a follower counts whose log is not the beginning of the leader's") \
    WEAKNESS(any_epoch, "R2", "frames of any epoch, and of any answer, are taken") \
    WEAKNESS(alone, "R3", "the leader acknowledges what only it has") \
    WEAKNESS(stale_answer, "R3", "a question is answered without a confirmation") \
    WEAKNESS(shrink_early, "R4", "the follower does not count any more once its removal is asked for") \
    WEAKNESS(older_record, "R4", "an older record is believed") \
    WEAKNESS(grow_late, "R5", "the follower counts only once its addition is known to be done") \
    WEAKNESS(grow_early, "R5", "a follower is added before it has what was acknowledged without it") \
    WEAKNESS(unchanged_proves, "R5", "an unchanged record ends a pending addition") \
    WEAKNESS(unfenced, "R6", "the claim does not wait for the fence to be durable") \
    WEAKNESS(not_in_sync, "R6", "a follower that is not in sync claims") \
    WEAKNESS(any_run, "R6", "a record that names this node is believed to be of this run") \
    WEAKNESS(record_forgotten, "R6", "a record that was lost is made anew by whoever founded it") \
    WEAKNESS(record_outdated, "R6", "a record is believed that is of an earlier epoch than one that this node has seen") \
    WEAKNESS(promise_unseen, "R6", "who promises an epoch does not note that there was a record of it") \
    WEAKNESS(claim_unnoted, "R6", "who has claimed an epoch leads it before that is noted") \
    WEAKNESS(fence_forgotten, "R7", "a promise may be below the fence, on either side") \
    WEAKNESS(fence_unheard, "R7", "a leader does not mind that its epoch is fenced") \
    WEAKNESS(stale_greeting, "R8", "the answer to any question is acted on") \
    WEAKNESS(known_only, "R5", "strict: a follower is added that lacks what an earlier epoch acknowledged") \
    WEAKNESS(promise_alone, "operator", "a node promises that has served alone") \
    WEAKNESS(any_promise, "operator", "what was heard of the other is as good as its promise") \
    WEAKNESS(any_parity, "operator", "an epoch's number does not carry the node") \
    WEAKNESS(not_quiet, "operator", "a node that has served alone leads as it starts") \
    WEAKNESS(unasserted, "operator", "an assertion makes a node lead that never was in sync") \
    WEAKNESS(alone_unnoted, "operator", "it is not noted that a node serves alone") \
    WEAKNESS(any_disk, "operator", "a promise counts from whatever disk it comes") \
    WEAKNESS(claim_unasked, "operator", "a leader that hears nothing does not ask whether the other leads a later epoch") \
    WEAKNESS(alone_unheard, "operator", "a leader takes no notice of the later epoch of a node that serves alone") \
    WEAKNESS(hand_early, "hand-over", "the leader hands over what the follower lacks") \
    WEAKNESS(leads_on, "hand-over", "the leader goes on after it has promised")
/* clang-format on */

enum pair_weakness {
    WEAK_none,
#define PAIR_WEAKNESS_NUMBER(name, rule, sentence) WEAK_##name,
    PAIR_WEAKNESSES(PAIR_WEAKNESS_NUMBER)
#undef PAIR_WEAKNESS_NUMBER
};

#ifdef PAIR_WEAKENED
extern enum pair_weakness pair_weakness;
#define WEAK(name) (pair_weakness == WEAK_##name)
#else
#define WEAK(name) (WEAK_none == WEAK_##name)
#endif

#endif
