/* config.h: the operator's options. Every option is a key of the INI file and, with two dashes before it, an option of
 * the command line. The command line has priority, in any order. Pure, except for reading the file. */
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
/* Maximum size of the INI file in bytes. */
#define CONFIG_FILE_MAX (1u << 20)

enum replication { REPLICATION_NONE, REPLICATION_ASYNC, REPLICATION_SYNC, REPLICATION_UNSAID };
#define SOLO_NEVER UINT64_MAX
#define SOLO_UNSAID (UINT64_MAX - 1)

/* Shares of `memory`. The rest is for stacks, the door, batches and the C library (CALM-1). */
#define MEMORY_SHARE_CORE(memory) ((memory) / 2)
#define MEMORY_SHARE_INDEX(memory) ((memory) / 4 - MEMORY_SHARE_CONTENTS(memory) / 2)
#define MEMORY_SHARE_REQUESTS(memory) ((memory) / 8)
/* Share for rows of stored tasks that were read for requests, until the core has used them. */
#define MEMORY_SHARE_FACTS(memory) ((memory) / 16)
/* Share for the cache of task contents whose segments were removed from the log. Only a budget above
 * MEMORY_CONTENTS_FROM has this share. It is a quarter of the excess, which the index and the other parts could not
 * use. */
#define MEMORY_CONTENTS_FROM (1ull << 30)
#define MEMORY_SHARE_CONTENTS(memory) ((memory) > MEMORY_CONTENTS_FROM ? ((memory)-MEMORY_CONTENTS_FROM) / 4 : 0)

struct config {
    uint64_t memory;                 /* memory that the broker may use, in bytes */
    char data[CONFIG_TEXT_SIZE];     /* the data directory */
    char listen[CONFIG_TEXT_SIZE];   /* URLs to listen on, separated by spaces */
    bool listens;                    /* true: the operator gave `listen` */
    char file[CONFIG_TEXT_SIZE];     /* the INI file; empty: none */
    char sign_key[CONFIG_TEXT_SIZE]; /* file of the key that signs heads of the log; empty: no signing */
    /* PEM files of the broker's certificate and key; empty: none */
    char tls_cert[CONFIG_TEXT_SIZE];
    char tls_key[CONFIG_TEXT_SIZE];
    char tls_client_ca[CONFIG_TEXT_SIZE]; /* CA of client certificates; if set, a client must show one */
    char tls_peer_ca[CONFIG_TEXT_SIZE];   /* CA of the other node's certificate; empty: tls_client_ca */
    bool unsafe_no_tls;                   /* ws:// may listen on an address that is not loopback */
    char tokens[CONFIG_TEXT_SIZE];        /* file of tokens; empty: `tokens` in the data directory */
    bool unsafe_no_tokens; /* clients from the network without a token or certificate are admitted like local clients */
    char allow_origin[CONFIG_TEXT_SIZE]; /* origins of web pages that may use the broker, separated by spaces */
    char push_secrets[CONFIG_TEXT_SIZE]; /* file of keys that sign webhooks; empty: no webhooks */
    char push_allow[CONFIG_TEXT_SIZE];   /* networks that webhooks may go to, separated by spaces */
    char push_ca[CONFIG_TEXT_SIZE];      /* PEM file of CAs for webhooks; empty: the CAs that this host trusts */
    bool accept_clock_jump;              /* TIME-2: believe the wall clock at this start, whatever it says */
    bool inspect;                        /* read-only: answer questions about the directory, change nothing in it */
    bool create_queues;
    bool archiving;       /* archive retired segments before they are deleted */
    uint64_t payload_max; /* largest payload of a task, in bytes */
    /* webhooks */
    uint64_t push_requests;       /* maximum number of concurrent webhook requests; fewer if the process has few file
                                     descriptors */
    uint64_t push_host_requests;  /* maximum number of concurrent webhook requests to one host */
    uint64_t push_queue_requests; /* maximum number of concurrent webhook requests of one queue */
    uint64_t push_timeout_ms;     /* timeout of a webhook request */
    uint64_t push_connect_timeout_ms;
    uint64_t push_rest_ms; /* longest backoff of a webhook target that fails */
    uint64_t outcome_retention_ms;
    uint64_t outcomes_max;
    uint64_t retain_log_age_ms;
    uint64_t retain_log_size;
    char archive[CONFIG_TEXT_SIZE]; /* archive directory; empty: `archive` in the data directory */
    uint64_t archive_level;         /* zstd compression level */
    uint64_t retain_archive_age_ms; /* age at which archived segments are pruned; 0: never */
    uint64_t retain_archive_size;   /* size limit of the archive in bytes; 0: no limit */
    uint64_t segment_size;
    /* options of a pair; if `peer` is empty, there is no pair */
    char peer[CONFIG_TEXT_SIZE];            /* URL of the other node */
    char follow[CONFIG_TEXT_SIZE];          /* URL of the other node, given by --follow */
    bool joins;                             /* a new directory joins the peer's cluster instead of founding one */
    char advertise[CONFIG_TEXT_SIZE];       /* URL at which others reach this node; empty: the listen URL */
    char peer_key[CONFIG_TEXT_SIZE];        /* file with the key that both nodes share */
    char peer_token_file[CONFIG_TEXT_SIZE]; /* file with the token that this node shows to the other one; empty: none */
    char coordinator[CONFIG_TEXT_SIZE];     /* URL of the coordinator; empty: an operator decides which node leads */
    char coordinator_credentials[CONFIG_TEXT_SIZE]; /* file with user:password; empty: none */
    /* PEM files for etcds://; empty: the host's own CAs, no client certificate. */
    char coordinator_ca[CONFIG_TEXT_SIZE];
    char coordinator_certificate[CONFIG_TEXT_SIZE];
    char coordinator_key[CONFIG_TEXT_SIZE];
    uint64_t replication;   /* mode of replication: an enum replication */
    uint64_t solo_after_ms; /* how long the primary waits for a silent follower before it continues alone; SOLO_NEVER;
                               SOLO_UNSAID: default */
    uint64_t failover_after_ms; /* how long the follower waits for a silent leader before it takes over; 0: default */
    uint64_t index_lag_max;  /* index lag, in records, above which new tasks are refused; 0: computed from `memory` */
    uint64_t index_lag_hard; /* index lag, in records, above which moves and leases are refused; 0: computed from
                                index_lag_max */
    /* policy of new queues */
#define POLICY_NUMBER(field, ...) uint64_t field;
#define POLICY_LIMIT(field, ...)
#define POLICY_TEXT(field, ...)
#include "policy.def"
    bool help; /* --help or --version was given: all other members are invalid */
    bool version;
    bool print_config; /* print the options in force and exit */
};

void config_defaults(struct config *config);

/* Loads the defaults, the INI file of --config and the command line. Returns 0, or 1 with an error in `message`. */
int config_load(struct config *config, int argc, char **argv, char message[CONFIG_MESSAGE_SIZE]);

/* Reads an INI file into `config`. Keys are outside of any section or in [tarryd]. */
int config_read(struct config *config, const char *path, char message[CONFIG_MESSAGE_SIZE]);

void config_help(FILE *out);

/* Prints the options in force that affect the broker's behaviour, as lines `name=value` in a fixed order, durations in
 * ms and sizes in bytes. Omits the options that say where the broker is (data, listen, config), and options for a
 * single start. */
void config_print(const struct config *config, FILE *out);
/* Computes BLAKE2b-256 of the output of config_print, for the log: `tarryd --print-config … | b2sum -l 256`. Returns
 * false if memory is exhausted. */
bool config_digest(const struct config *config, uint8_t out[CONFIG_DIGEST_SIZE]);

/* ---- options of TLS. Pure. */
/* Returns whether the broker listens on wss://, or its peer does. */
bool config_uses_tls(const struct config *config);

#endif
