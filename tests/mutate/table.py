"""table.py: which tests see a change in which folder. Each folder has stages, the quickest first; each stage is a list of
patterns of meson's test names. A later stage runs only if the earlier ones did not notice the change.

Tests that take minutes, or that measure time on a quiet machine, are in no stage.
"""
import fnmatch

CLIENT = ["client*"]
LOG = ["log", "log_[cef]*", "log_prepare", "frame", "history", "erase", "archive", "disk", "identity", "keyring", "hard_state", "signing", "row", "tally",
       "quarantine_erase", "log_copy"]
CORE = ["core", "core_[acdnprsw]*", "list_page", "outcomes", "slab", "ledger", "tally", "row", "arena"]
STORIES = ["story_*", "moments"]
LIVE = ["e2e_schedule", "e2e_cancel", "e2e_consume", "e2e_consumers", "e2e_look", "e2e_settle", "e2e_herds", "e2e_groups", "e2e_start", "e2e_facts", "e2e_queue_delete", "e2e_queue_places", "e2e_recur", "e2e_audit"]
WIRE = ["e2e_wire", "e2e_sp", "e2e_fault_wire", "e2e_listen", "hostile_heads", "hostile_frames", "hostile_limits", "e2e_access", "e2e_secure", "e2e_tls"]
PAIR = ["e2e_pair_wire", "e2e_pair_follow", "e2e_pair_modes", "e2e_pair_stop", "e2e_pair_record", "e2e_pair_alone", "e2e_failover", "e2e_late_thread", "e2e_pair_paused"]

STAGES = {
    "common": [["units", "histogram", "arena", "message", "request"], ["fuzz-units", "fuzz-request", "core*", "log", "index*", "tool"], LIVE],
    "proto": [["frame", "check", "row", "units", "tally", "histogram", "arena", "message", "request", "push", "signing", "keyring", "sp_frame", "ws_frame", "ws_handshake"],
              ["fuzz-frame", "fuzz-row", "fuzz-units", "fuzz-request", "fuzz-content", "fuzz-wire", "fuzz-sp_frame", "fuzz-ws_frame", "ws_stream", "wire", "core*", "log", "index*", "tool"], LIVE],
    "transport": [[*CLIENT, "rpc_client"], ["fuzz-transport", "fuzz-door", "fuzz-reply"], ["e2e_tls", "e2e_secure", "e2e_way", "e2e_churn"], ["e2e_failover", "e2e_pair_wire"]],
    "storage": [LOG, ["index", "index_*", "indexer", "fuzz-segments", "fuzz-index", "fuzz-summary", "fuzz-verify", "fuzz-copy"],
                ["wheel", "log_crash", "log_pair_crash", "archive_crash", "tamper"], STORIES,
                ["e2e_archive", "e2e_backup", "e2e_redact", "e2e_signing", "e2e_evidence", "e2e_damage", "e2e_summary", "e2e_quarantine", "e2e_restart", "e2e_upgrade"],
                ["log_tail_torn", "crash_sync", "crash_powercut"]],
    "broker/recur": [["core_recur"], ["recur_judges"], ["histories_1", "e2e_recur"]],
    "broker/core": [CORE, ["ready", "wheel", "core_full", "fuzz-core", "fuzz-wheel"], STORIES, LIVE,
                    ["histories_1", "e2e_quarantine", "e2e_access", "e2e_restart"]],
    "broker/engine": [["core_turn", "lane_state", "outgoing_read", "erasure", "disk_reserve", "recovery_plan", "retention", "index_schedule", "group_commit",
                       "release_gate"], STORIES, ["histories_1"],
                      ["crash_pressure", "e2e_disk", "e2e_restart", "e2e_redact", "e2e_archive"], PAIR],
    "broker/replication": [["leader_*", "follower_half", "alone", "copy_progress", "digests", "freshness", "hard_state_rules", "record_reads", "silence", "summons",
                            "record_client", "follow_wire"], ["story_pair", "story_operator", "steady_history"], ["pair_histories"], PAIR],
    "broker/pair": [["pair_following", "pair_leading", "pair_operator", "pair_record", "record_client", "follow_wire"], ["story_pair", "story_operator", "model_pair", "model_pair_operator", "model_pair_operator_paused", "model_pair_operator_wrong", "model_pair_hand"],
                    ["pair_histories"], PAIR],
    "broker/curl": [["libcurl", "push"], ["e2e_webhooks"], ["e2e_coordinator*"]],
    "broker/coordinator": [["coordinator*", "record_client", "fuzz-etcd_answer", "fuzz-pair_record"], ["e2e_coordinator*"], ["e2e_pair_coordinator"]],
    "broker/shell/pair": [["pair_cut", "tcp_check*", "missed_redactions", "follow_wire", "record_client", "leader_clock", "peer_proof", "hard_state"], ["story_pair", "story_operator"], PAIR,
                          ["e2e_pair_look", "e2e_pair_pause", "e2e_pair_stats", "e2e_pair_snapshot", "e2e_pair_refusals", "crash_pair"]],
    "broker/shell": [["arena_pool", "queues", "inbox", "indexer", "reader", "last_shutdown", "request", "config", "e2e_options", "clock", "boot", "disk_space", "access*", "fuzz-config", "fuzz-request", "fuzz-metrics", "journal", "logfmt", "fatal", "shell_door", "pending_erasures", "e2e_metrics", "e2e_journal"], STORIES, LIVE,
                     [*WIRE, "hostile_nuisance", "e2e_restart", "e2e_damage", "e2e_audit_wire", "e2e_archive", "e2e_backup", "e2e_redact", "e2e_signing", "e2e_evidence", "e2e_webhooks", "e2e_quarantine"],
                     ["crash_sync", "crash_cold", "crash_pressure", "crash_inject", "crash_ledger", "e2e_fault_process", "e2e_disk", "e2e_way"], PAIR],
    "broker/net": [["door_*", "deadlines", "fair", "http_head", "message", "fuzz-door", "fuzz-http"], ["e2e_wire", "e2e_listen", "e2e_sp", "hostile_heads", "hostile_frames"], [*WIRE, "hostile_slow", "hostile_rest", "hostile_crowd", "hostile_tls"]],
    "broker/peer": [["rpc_client"], ["e2e_pair_wire", "e2e_pair_follow"], PAIR],
    "broker/gateway": [["core_pooled", "gateway"], ["e2e_http", "e2e_beanstalk", "e2e_timers"], ["e2e_http_api", "e2e_consume", "e2e_pair_web"]],
    "broker/amqp": [["amqp_words", "fuzz-amqp"], ["e2e_amqp"], ["e2e_amqp_celery", "e2e_amqp_java", "hostile_amqp"]],
    "broker/beanstalk": [["beanstalk_words", "beanstalk_held", "fuzz-beanstalk"], ["e2e_beanstalk", "e2e_reserved", "e2e_timers"], ["e2e_pair_web"]],
    "broker/page": [["e2e_page"]],
    "broker/http": [["http_live", "http_minutes", "http_body", "http_pipeline", "json_text", "fuzz-http"], ["e2e_http", "e2e_http_hostile", "hostile_budget"], ["e2e_http_api", "e2e_http_codes", "e2e_live"]],
    "broker/push": [["push", "push_desk", "push_work", "fuzz-push"], ["e2e_webhooks", "e2e_webhooks_options"]],
    "broker/access": [["access*", "refusals", "fuzz-tokens"], ["e2e_access", "e2e_secure", "e2e_reserved", "hostile_nuisance"]],
    "client/lib": [CLIENT, ["fuzz-reply", "fuzz-delivery", "fuzz-lines", "fuzz-transport", "fuzz-door", "tool"],
                   ["e2e_handler", "e2e_named", "e2e_consume", "e2e_settle", "e2e_restart", "e2e_churn", "e2e_tls", "e2e_secure", "e2e_clients_c"], ["e2e_failover", "e2e_backup"]],
    "client/tool/amqp": [["e2e_amqp_tool"]],
    "client/tool/doctor": [["e2e_doctor"]],
    "client/tool/import": [["fuzz-import", "tool_lines"], ["e2e_import"]],
    "client/tool/offline": [["entry", "tool", "fuzz-entry", "fuzz-verify", "fuzz-summary"], ["e2e_tool", "e2e_facts", "e2e_signing", "e2e_evidence"],
                            ["e2e_archive", "e2e_backup", "e2e_audit", "e2e_summary", "e2e_asof", "e2e_inspect", "e2e_damage", "e2e_redact", "e2e_quarantine", "e2e_start"],
                            ["tamper", "e2e_pair_sign", "e2e_pair_look"]],
    "client/tool/replay": [["replay_tables", "replay_parts", "entry", "fuzz-entry"], ["e2e_replay"]],
    "client/tool": [["tool", "tool_lines", "entry", "fuzz-entry", "fuzz-lines"], ["e2e_tool", "e2e_select", "e2e_input", "e2e_messages", "e2e_terminal", "e2e_look", "e2e_outbox"],
                    ["e2e_schedule", "e2e_cancel", "e2e_consume", "e2e_settle", "e2e_queue_delete", "e2e_outage", "e2e_access", "e2e_doctor", "e2e_owner"],
                    ["e2e_audit", "e2e_calendar", "e2e_redact", "e2e_replay", "e2e_signing", "e2e_failover", "e2e_pair_look"]],
}


def stages_of(path):
    """Returns the patterns of the folder with the longest name that `path` begins with; [] if there is none."""
    known = [folder for folder in STAGES if path.startswith(folder + "/")]
    return STAGES[max(known, key=len)] if known else []


def chosen(names, patterns, asked):
    """Returns those of `names` that match a pattern and did not run before, in the order of the patterns."""
    return list(dict.fromkeys(name for pattern in patterns for name in fnmatch.filter(names, pattern) if name not in asked))


def unknown_patterns(names):
    """Returns the patterns that match no test any more."""
    return sorted({pattern for stages in STAGES.values() for stage in stages for pattern in stage if not fnmatch.filter(names, pattern)})
