/* config.h: what the operator asked for. Every option is a key of the INI file and, with two dashes before it, an
 * option of the command line; the command line wins, whatever the order. Pure but for reading the file. */
#ifndef TARRY_SHELL_CONFIG_H
#define TARRY_SHELL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "frame.h"
#include "tarry_limits.h"

#define CONFIG_TEXT_SIZE 1024
#define CONFIG_MESSAGE_SIZE 512
/* Bytes that the INI file may have. */
#define CONFIG_FILE_MAX (1u << 20)

enum replication { REPLICATION_NONE, REPLICATION_ASYNC, REPLICATION_SYNC, REPLICATION_UNSAID };
#define SOLO_NEVER UINT64_MAX
#define SOLO_UNSAID (UINT64_MAX - 1)

/* How `memory` is shared out; the rest is for stacks, the door, batches and the C library (CALM-1). */
#define MEMORY_SHARE_CORE(memory) ((memory) / 2)
#define MEMORY_SHARE_INDEX(memory) ((memory) / 4 - MEMORY_SHARE_CONTENTS(memory) / 2)
#define MEMORY_SHARE_REQUESTS(memory) ((memory) / 8)
/* Stored tasks that were read for requests and are not used yet. */
#define MEMORY_SHARE_FACTS(memory) ((memory) / 16)
/* Contents that have left the log: of a large budget what neither the index nor the rest has a use for. */
#define MEMORY_CONTENTS_FROM (1ull << 30)
#define MEMORY_SHARE_CONTENTS(memory) ((memory) > MEMORY_CONTENTS_FROM ? ((memory)-MEMORY_CONTENTS_FROM) / 4 : 0)

struct config {
    uint64_t memory;                 /* bytes */
    char data[CONFIG_TEXT_SIZE];     /* the data directory */
    char listen[CONFIG_TEXT_SIZE];   /* URLs, separated by blanks */
    bool listens;                    /* … and they were said */
    char file[CONFIG_TEXT_SIZE];     /* the INI file; empty: none */
    char sign_key[CONFIG_TEXT_SIZE]; /* file of the key that signs heads of the log; empty: none does */
    /* PEM files; empty: none */
    char tls_cert[CONFIG_TEXT_SIZE];
    char tls_key[CONFIG_TEXT_SIZE];
    char tls_client_ca[CONFIG_TEXT_SIZE]; /* a client must show a certificate of it */
    char tls_peer_ca[CONFIG_TEXT_SIZE];   /* the other node's is of it; empty: tls_client_ca */
    bool unsafe_no_tls;                   /* ws:// may listen on an address that is not loopback */
    char tokens[CONFIG_TEXT_SIZE];        /* file of tokens; empty: `tokens` in the data directory */
    bool unsafe_no_tokens; /* a client from the network that shows nothing is let in as if it were local */
    char allow_origin[CONFIG_TEXT_SIZE]; /* origins of web pages that may use the broker, separated by blanks */
    char push_secrets[CONFIG_TEXT_SIZE]; /* file of what webhooks are signed with; empty: nothing is pushed */
    char push_allow[CONFIG_TEXT_SIZE];   /* networks that webhooks may go to, separated by blanks */
    char push_ca[CONFIG_TEXT_SIZE];      /* PEM file; empty: the CAs that this host trusts */
    bool accept_clock_jump;              /* TIME-2: believe the wall clock at this start, whatever it says */
    bool inspect;                        /* answer questions about the directory, and change nothing in it */
    bool create_queues;
    bool archiving;       /* retired segments are archived first */
    uint64_t payload_max; /* bytes */
    /* webhooks */
    uint64_t push_requests;       /* at once, in all; fewer, where the system grants few descriptors */
    uint64_t push_host_requests;  /* … to one host */
    uint64_t push_queue_requests; /* … of one queue */
    uint64_t push_timeout_ms;     /* of a request */
    uint64_t push_connect_timeout_ms;
    uint64_t push_rest_ms; /* the longest, of a target that fails */
    uint64_t outcome_retention_ms;
    uint64_t outcomes_max;
    uint64_t retain_log_age_ms;
    uint64_t retain_log_size;
    char archive[CONFIG_TEXT_SIZE]; /* where to; empty: the data directory's `archive` */
    uint64_t archive_level;         /* zstd's */
    uint64_t retain_archive_age_ms; /* 0: for ever */
    uint64_t retain_archive_size;   /* bytes; 0: no limit */
    uint64_t segment_size;
    /* the pair; without `peer` there is none */
    char peer[CONFIG_TEXT_SIZE];            /* URL of the other node */
    char follow[CONFIG_TEXT_SIZE];          /* the same, said by --follow */
    bool joins;                             /* a new directory joins the peer's cluster instead of founding one */
    char advertise[CONFIG_TEXT_SIZE];       /* URL by which others reach this node; empty: as it listens */
    char peer_key[CONFIG_TEXT_SIZE];        /* file with the secret that both nodes have */
    char peer_token_file[CONFIG_TEXT_SIZE]; /* with the token that the other node knows this one by; empty: none */
    char coordinator[CONFIG_TEXT_SIZE];     /* URL; empty: an operator decides */
    char coordinator_credentials[CONFIG_TEXT_SIZE]; /* file with user:password; empty: none */
    char coordinator_ca[CONFIG_TEXT_SIZE];          /* PEM files, of etcds://; empty: the host's own CAs, none */
    char coordinator_certificate[CONFIG_TEXT_SIZE];
    char coordinator_key[CONFIG_TEXT_SIZE];
    uint64_t replication;       /* enum replication */
    uint64_t solo_after_ms;     /* SOLO_NEVER: never; SOLO_UNSAID: as fits */
    uint64_t failover_after_ms; /* 0: unsaid */
    uint64_t index_lag_max;     /* records; 0: from `memory` */
    uint64_t index_lag_hard;    /* records; 0: from index_lag_max */
    /* policy of new queues */
    uint64_t lease_ms;
    uint64_t max_attempts;
    uint64_t backoff; /* Tarry__Policy__Backoff */
    uint64_t backoff_min_ms;
    uint64_t backoff_max_ms;
    uint64_t backoff_jitter; /* per cent */
    bool help;               /* --help and --version: the rest is void */
    bool version;
    bool print_config; /* … is printed, and that is all */
};

void config_defaults(struct config *config);

/* Defaults, then the INI file that --config names, then the command line. 0, or 1 with a sentence in `message`. */
int config_load(struct config *config, int argc, char **argv, char message[CONFIG_MESSAGE_SIZE]);

/* Reads an INI file into `config`. Keys stand outside of any section or in [tarryd]. */
int config_read(struct config *config, const char *path, char message[CONFIG_MESSAGE_SIZE]);

void config_help(FILE *out);

/* The options in force that concern how the broker behaves, as lines `name=value` in a fixed order, durations in ms and
 * sizes in bytes. Left out: where it stands (data, listen, config), and what is said at one start only. */
void config_print(const struct config *config, FILE *out);
/* BLAKE2b-256 of what config_print prints, for the log: `tarryd --print-config … | b2sum -l 256`. False: no memory. */
bool config_digest(const struct config *config, uint8_t out[CONFIG_DIGEST_SIZE]);

/* ---- config_pair.c: what the options of a pair say together, and what they leave unsaid. Pure. */
/* Fills in what was not said. 0, or 1 with a sentence. */
int config_resolve_pair(struct config *config, char message[CONFIG_MESSAGE_SIZE]);

/* ---- config_tls.c: what the options of TLS say together. Pure. */
/* It listens at wss://, or its peer does. */
bool config_uses_tls(const struct config *config);
/* 0, or 1 with a sentence. */
int config_check_tls(const struct config *config, char message[CONFIG_MESSAGE_SIZE]);

#endif
