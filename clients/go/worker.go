package tarry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
)

const (
	pollMax      = 5 * time.Second // maximum time of one long poll: a dead host is noticed after this plus `silence`
	leasesMax    = 4096            // maximum number of leases in one lease request
	drainDefault = 30 * time.Second
	extendAgain  = 200 * time.Millisecond // after an extension that got no answer
	refusedAgain = time.Second            // after a refusal of a later lease request
)

// Handler handles a task. nil acks it; an error has it delivered again after the queue's backoff, with the error's text as the reason of the dead
// letter after the last attempt; Retry, RetryAfter, Dead and Release say otherwise. ctx is done when the lease is lost, or the time for draining is over.
type Handler func(ctx context.Context, task *Task) error

// WorkerOptions of Client.Worker. The zero value is usual.
type WorkerOptions struct {
	Prefetch  int           // tasks that this worker may have; 0: 2 × concurrency
	Lease     time.Duration // length of the leases; 0: that of the queue's policy
	Drain     time.Duration // time that handlers have to finish after a stop; 0: 30 s
	NoSignals bool          // SIGTERM and SIGINT do not stop the worker
}

type held struct {
	task       *Task
	ctx        context.Context
	cancel     context.CancelFunc
	until      time.Time // end of the lease, counted from the arrival of the task, or from the sending of its extension
	extendAt   time.Time
	isSettling bool
}

func (h *held) leased(since time.Time) {
	h.until, h.extendAt = since.Add(h.task.lease), since.Add(h.task.lease/2)
}

type worker struct {
	client      *Client
	queues      []string
	concurrency int
	handler     Handler
	options     WorkerOptions

	mutex    sync.Mutex
	changed  *sync.Cond
	held     map[string]*held // task id → lease
	waiting  []*held
	running  int
	settling int
	stopping bool
	ended    chan struct{}
}

// Worker calls handler for each due task of the queue, at most concurrency at a time, until ctx is done, or SIGTERM or SIGINT. Then it releases all tasks that no handler has begun, waits for the handlers, and returns nil. It returns an error if the broker refuses the first request.
func (c *Client) Worker(ctx context.Context, queue string, concurrency int, handler Handler, options ...WorkerOptions) error {
	return c.WorkerOf(ctx, []string{queue}, concurrency, handler, options...)
}

// WorkerOf is a Worker of several queues.
func (c *Client) WorkerOf(ctx context.Context, queues []string, concurrency int, handler Handler, options ...WorkerOptions) error {
	if concurrency < 1 {
		return fmt.Errorf("tarry: concurrency must be 1 or more, not %d", concurrency)
	}
	w := &worker{client: c, queues: queues, concurrency: concurrency, handler: handler, held: map[string]*held{}, ended: make(chan struct{})}
	if len(options) > 0 {
		w.options = options[0]
	}
	if w.options.Prefetch == 0 {
		w.options.Prefetch = 2 * concurrency
	}
	if w.options.Drain == 0 {
		w.options.Drain = drainDefault
	}
	w.changed = sync.NewCond(&w.mutex)
	if !w.options.NoSignals {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
		defer stop()
	}
	defer close(w.ended)
	go w.keepLeases()
	err := w.lease(ctx)
	w.drain()
	return err
}

// lease fetches tasks until ctx is done.
func (w *worker) lease(ctx context.Context) error {
	go func() {
		select {
		case <-ctx.Done():
		case <-w.ended:
		}
		w.mutex.Lock()
		w.stopping = true
		w.changed.Broadcast()
		w.mutex.Unlock()
	}()
	for isFirst := true; ; {
		room := w.room()
		if room == 0 {
			return nil
		}
		body, _ := json.Marshal(map[string]any{"queues": w.queues, "max": room, "wait_ms": pollMax.Milliseconds(), "lease_ms": w.options.Lease.Milliseconds()})
		text, err := (&ask{method: http.MethodPost, path: "/v1/lease", body: body, patience: pollMax + silence}).run(ctx, w.client.link)
		var answer struct {
			Tasks []struct {
				View
				payload
				Token   string `json:"token"`
				LeaseMs int64  `json:"lease_deadline_ms"`
			} `json:"tasks"`
			DeliveredMs int64 `json:"delivered_ms"`
		}
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if isFirst {
				return err
			}
			log.Printf("tarry: lease of %v: %v", w.queues, err)
			select {
			case <-time.After(refusedAgain):
			case <-ctx.Done():
			}
			continue
		}
		isFirst = false
		for _, told := range answer.Tasks {
			task := &Task{View: told.View, Token: told.Token, DeliveredMs: answer.DeliveredMs}
			task.Body = told.payload.bytes()
			task.lease = time.Duration(told.LeaseMs-answer.DeliveredMs) * time.Millisecond
			w.take(task, time.Now())
		}
	}
}

// room waits until the worker may have more tasks. 0: it stops.
func (w *worker) room() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for len(w.held) > w.options.Prefetch/2 && !w.stopping {
		w.changed.Wait() // half of the places at least, so that requests bring many tasks
	}
	if w.stopping {
		return 0
	}
	room := w.options.Prefetch - len(w.held)
	if room < 1 {
		room = 1
	}
	if room > leasesMax {
		room = leasesMax
	}
	return room
}

func (w *worker) take(task *Task, received time.Time) {
	ctx := context.Background()
	if parent := task.Attributes["traceparent"]; parent != "" {
		ctx = WithTrace(ctx, parent, task.Attributes["tracestate"])
	}
	h := &held{task: task}
	h.ctx, h.cancel = context.WithCancel(ctx)
	h.leased(received)
	w.client.measure("tarry.worker.lateness.seconds", float64(task.DeliveredMs-task.DueMs)/1000, map[string]any{"queue": task.Queue})
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if present := w.held[task.ID]; present != nil {
		present.cancel() // the task's lease has ended
	}
	w.held[task.ID] = h
	w.waiting = append(w.waiting, h)
	w.changed.Broadcast()
	w.start()
}

// start begins handlers. Lock held.
func (w *worker) start() {
	for len(w.waiting) > 0 && w.running < w.concurrency && !w.stopping {
		h := w.waiting[0]
		w.waiting = w.waiting[1:]
		if w.held[h.task.ID] != h || time.Now().After(h.until) {
			w.drop(h)
			continue
		}
		w.running++
		go w.handle(h)
	}
}

// drop forgets a lease. Lock held.
func (w *worker) drop(h *held) {
	h.cancel()
	if w.held[h.task.ID] == h {
		delete(w.held, h.task.ID)
	}
	w.changed.Broadcast()
}

func (w *worker) call(h *held) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			log.Printf("tarry: the handler of %s %s panicked: %v\n%s", h.task.Queue, h.task.Key, recovered, debug.Stack())
			err = fmt.Errorf("panic: %v", recovered)
		}
	}()
	return w.handler(h.ctx, h.task)
}

func (w *worker) handle(h *held) {
	started := time.Now()
	done := make(chan error, 1)
	go func() { done <- w.call(h) }()
	var err error
	select {
	case err = <-done:
	case <-h.ctx.Done(): // the lease is lost, or the time for draining has passed: the handler's result is ignored
		err = Release(0)
	}
	result, ops := verdictOf(h.task, err)
	w.client.measure("tarry.worker.handler.seconds", time.Since(started).Seconds(), map[string]any{"queue": h.task.Queue, "result": result})
	w.mutex.Lock()
	h.isSettling = true
	w.running--
	w.settling++
	w.start()
	w.changed.Broadcast()
	w.mutex.Unlock()
	w.settle(h, result, ops)
}

func verdictOf(task *Task, err error) (string, []map[string]any) {
	lease := func(more ...any) map[string]any {
		arguments := map[string]any{"id": task.ID, "token": task.Token}
		for at := 0; at < len(more); at += 2 {
			arguments[more[at].(string)] = more[at+1]
		}
		return arguments
	}
	var said *verdict
	switch {
	case err == nil:
		return "acked", []map[string]any{{"ack": lease()}}
	case !errors.As(err, &said):
		return "retried", []map[string]any{{"nack": lease("reason", reasonOf(err.Error()))}}
	case said.kind == "dead":
		return "dead", []map[string]any{{"nack": lease("dead", true, "reason", reasonOf(said.reason))}}
	case said.kind == "release" && said.delay > 0: // HTTP's release has no time: together with a move it has
		ms, _ := milliseconds("delay", said.delay)
		return "released", []map[string]any{{"release": lease()}, {"move": map[string]any{"id": task.ID, "delay_ms": ms}}}
	case said.kind == "release":
		return "released", []map[string]any{{"release": lease()}}
	case said.hasDelay:
		ms, _ := milliseconds("delay", said.delay)
		return "retried", []map[string]any{{"nack": lease("delay_ms", ms, "reason", reasonOf(said.reason))}}
	}
	return "retried", []map[string]any{{"nack": lease("reason", reasonOf(said.reason))}}
}

// settle acks, nacks or releases. The handler's place is free meanwhile; operations of many tasks share a request.
func (w *worker) settle(h *held, result string, ops []map[string]any) {
	ctx, cancel := w.client.within(context.Background())
	defer cancel()
	results, err := w.client.settles.commit(ctx, ops, len(ops) > 1)
	switch {
	case err != nil:
		log.Printf("tarry: %s %s %s: %v", result, h.task.Queue, h.task.Key, err)
		result = "unknown"
	case !results[0].OK():
		result = "lost"
	case result == "retried" && results[0].Outcome == "buried":
		result = "dead" // the last attempt has failed
	}
	w.client.measure("tarry.worker.tasks", 1, map[string]any{"queue": h.task.Queue, "result": result, "task": h.task})
	w.mutex.Lock()
	w.settling--
	w.drop(h)
	w.mutex.Unlock()
}

// keepLeases extends the leases of all tasks that the worker has, waiting or handled, when half of the time is over.
func (w *worker) keepLeases() {
	for {
		now := time.Now()
		next := now.Add(extendAgain)
		w.mutex.Lock()
		for _, h := range w.held {
			if h.isSettling {
				continue
			}
			if !h.extendAt.After(now) {
				h.extendAt = now.Add(w.client.timeout + silence) // no further extension until this one is answered
				go w.extend(h, now)
			} else if h.extendAt.Before(next) {
				next = h.extendAt
			}
		}
		w.mutex.Unlock()
		select {
		case <-time.After(time.Until(next)):
		case <-w.ended:
			return
		}
	}
}

func (w *worker) extend(h *held, now time.Time) {
	ctx, cancel := w.client.within(context.Background())
	defer cancel()
	arguments := map[string]any{"id": h.task.ID, "token": h.task.Token, "lease_ms": h.task.lease.Milliseconds()}
	results, err := w.client.settles.commit(ctx, []map[string]any{{"extend": arguments}}, false)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch {
	case err != nil:
		log.Printf("tarry: extend %s %s: %v", h.task.Queue, h.task.Key, err)
		h.extendAt = time.Now().Add(extendAgain)
	case results[0].OK():
		h.leased(now)
	case !h.isSettling:
		w.drop(h) // another consumer may have the task
	}
}

// drain releases all tasks that no handler has begun, and waits for the handlers and their acks.
func (w *worker) drain() {
	w.mutex.Lock()
	w.stopping = true
	for _, h := range w.waiting {
		if w.held[h.task.ID] == h {
			h.isSettling = true
			w.settling++
			go w.settle(h, "released", []map[string]any{{"release": map[string]any{"id": h.task.ID, "token": h.task.Token}}})
		}
	}
	w.waiting = nil
	late := time.AfterFunc(w.options.Drain, func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		log.Printf("tarry: %d handlers did not finish within %v: their tasks go back", w.running, w.options.Drain)
		for _, h := range w.held {
			if !h.isSettling {
				h.cancel()
			}
		}
	})
	for w.running > 0 || w.settling > 0 {
		w.changed.Wait()
	}
	late.Stop()
	w.mutex.Unlock()
}
