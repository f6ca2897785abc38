// index.d.ts: the types of tarry-client. README.md has the meaning of each call.

export interface ClientOptions {
  /** A token, or a file that holds one (mode 0600, read at each connect; $TARRY_TOKEN_FILE). */
  token?: string;
  tokenFile?: string;
  /** Paths of PEM files for wss:// ($TARRY_TLS_CA, $TARRY_TLS_CERT, $TARRY_TLS_KEY). */
  tlsCa?: string;
  tlsCert?: string;
  tlsKey?: string;
  /** Allows sending the token over ws:// to another machine, where others can read it. */
  unsafePlainToken?: boolean;
  /** Client's name in the broker's log. */
  name?: string;
  /** Default timeout of each call in ms; without it 10,000. */
  timeoutMs?: number;
  measure?: (name: string, value: number, labels: Record<string, unknown>) => void;
  /** Function that adds the trace context to the attributes of a scheduled task. */
  inject?: (attributes: Record<string, string>) => void;
  log?: (text: string) => void;
}

export interface Timeout { timeoutMs?: number }

/** Due time: `delayMs` from now, or the time `at`. With neither, the task is due now. */
export type When = { delayMs?: number; at?: undefined } | { delayMs?: undefined; at?: Date | number };

export type ScheduleOptions = When & Timeout & {
  key?: string;
  attributes?: Record<string, string>;
  /** 0 to 9; of the ready tasks, 9 is delivered first. */
  priority?: number;
  /** Time in ms after the due time at which an undelivered task expires. */
  expiresMs?: number;
  onConflict?: "reject" | "replace" | "earlier" | "later";
} & ({ body?: string | Uint8Array; json?: undefined } | { body?: undefined; json: unknown });

export interface Result {
  ok: boolean;
  code: string;
  outcome: string;
  id: string;
  dueMs: number;
  deliveries: number;
  attempt: number;
  message: string;
}

interface Content {
  readonly id: string;
  readonly queue: string;
  readonly key: string | null;
  readonly body: Uint8Array;
  readonly attributes: Record<string, string>;
  readonly dueMs: number;
  readonly attempt: number;
  readonly deliveries: number;
  readonly priority: number;
  text(): string;
  json(): any;
}

export interface View extends Content {
  readonly state: "pending" | "ready" | "in_flight" | "dead" | "acked" | "cancelled" | "expired" | "dropped";
  readonly reason: string;
  readonly scheduledMs: number;
  readonly endedMs: number;
}

export interface Task extends Content {
  readonly deliveredMs: number;
  /** The lease's token, "epoch-position". Later leases have greater tokens. */
  readonly token: string;
  /** True: the lease was lost, so another consumer may have the task now. */
  readonly isLeaseLost: boolean;
  trace(): Record<string, string>;
}

export type Handler = (task: Task, context: { signal: AbortSignal }) => unknown;

export interface WorkerOptions {
  /** Number of tasks that this worker may have; without it 2 × concurrency. */
  prefetch?: number;
  /** Duration of the leases in ms; 0: that of the queue's policy. */
  leaseMs?: number;
  /** Time in ms that handlers have to finish after a stop; without it 30,000. */
  drainMs?: number;
  /** Whether SIGTERM and SIGINT stop the worker; without it true. */
  signals?: boolean;
  /** Function that runs each handler: it must call `handle` and return its promise. */
  around?: (task: Task, handle: () => Promise<unknown>) => unknown;
}

export interface ById { id: string }

export class Client {
  constructor(urls?: string, options?: ClientOptions);
  schedule(queue: string, options?: ScheduleOptions): Promise<Result>;
  scheduleMany(tasks: ({ queue: string } & ScheduleOptions)[], options?: { atomic?: boolean } & Timeout): Promise<Result[]>;
  cancel(queue: string, key: string, options?: { withdraw?: boolean } & Timeout): Promise<Result>;
  cancel(task: ById, options?: { withdraw?: boolean } & Timeout): Promise<Result>;
  move(queue: string, key: string, options: When & Timeout): Promise<Result>;
  move(task: ById, options: When & Timeout): Promise<Result>;
  get(queue: string, key: string, options?: Timeout): Promise<View | null>;
  get(task: ById, options?: Timeout): Promise<View | null>;
  worker(queue: string | string[], concurrency: number, handler: Handler, options?: WorkerOptions): Promise<void>;
  stopWorkers(): void;
  close(): Promise<void>;
}

export class TarryError extends Error { readonly code: string }
export class Refused extends TarryError { readonly result: Result | null }
export class Exists extends Refused {}
export class NotDone extends Refused {}
export class StaleToken extends Refused {}
export class Denied extends Refused {}
export class Aborted extends Refused { readonly results: Result[] }
export class Unavailable extends TarryError {}
export class OutcomeUnknown extends TarryError {}
export class Closed extends TarryError {}

export class Retry extends Error { constructor(reason?: string, options?: { delayMs?: number }) }
export class Dead extends Error { constructor(reason?: string) }
export class Release extends Error { constructor(options?: { delayMs?: number }) }
