// The driver of clients/go (clients/conformance/README.md).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"tarry"
)

type call struct {
	ID          int               `json:"id"`
	Call        string            `json:"call"`
	Queue       string            `json:"queue"`
	Key         string            `json:"key"`
	Body        string            `json:"body"`
	DelayMs     int64             `json:"delay_ms"`
	AtMs        int64             `json:"at_ms"`
	Attributes  map[string]string `json:"attributes"`
	OnConflict  string            `json:"on_conflict"`
	Tasks       []call            `json:"tasks"`
	Atomic      bool              `json:"atomic"`
	Withdraw    bool              `json:"withdraw"`
	Concurrency int               `json:"concurrency"`
	LeaseMs     int64             `json:"lease_ms"`
	DrainMs     int64             `json:"drain_ms"`
}

var (
	out    sync.Mutex
	client *tarry.Client
	gate   = make(chan struct{})
)

func tell(what map[string]any) {
	text, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	out.Lock()
	defer out.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

func measured(name string, _ float64, labels map[string]any) {
	if name == "tarry.worker.tasks" {
		task := labels["task"].(*tarry.Task)
		tell(map[string]any{"event": "settled", "name": task.Attributes["name"], "result": labels["result"], "deliveries": task.Deliveries})
	}
}

func ms(word string) time.Duration {
	number, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return time.Duration(number) * time.Millisecond
}

func handle(ctx context.Context, task *tarry.Task) error {
	tell(map[string]any{"event": "task", "name": task.Attributes["name"], "key": task.Key, "attempt": task.Attempt, "deliveries": task.Deliveries,
		"due_ms": task.DueMs, "delivered_ms": task.DeliveredMs, "attributes": task.Attributes})
	words := strings.Split(string(task.Body), " ")
	text := strings.Join(words[1:], " ")
	limit := func() int { return int(ms(words[1]) / time.Millisecond) }
	switch words[0] {
	case "sleep":
		time.Sleep(ms(words[1]))
	case "gate":
		<-gate
	case "fail":
		return errors.New(text)
	case "dead":
		return tarry.Dead(text)
	case "fail-first":
		if task.Attempt <= limit() {
			return errors.New("not yet")
		}
	case "retry-first":
		if task.Attempt <= limit() {
			return tarry.RetryAfter(ms(words[2]), "not yet")
		}
	case "release-first":
		if task.Deliveries <= limit() {
			return tarry.Release(ms(words[2]))
		}
	case "chain":
		_, err := client.Schedule(ctx, tarry.Schedule{Queue: words[1], Body: []byte("ack"), Attributes: map[string]string{"name": words[2]}})
		return err
	}
	return nil
}

func (c call) schedule() tarry.Schedule {
	task := tarry.Schedule{Queue: c.Queue, Key: c.Key, Body: []byte(c.Body), Delay: time.Duration(c.DelayMs) * time.Millisecond,
		Attributes: c.Attributes, OnConflict: c.OnConflict}
	if c.AtMs != 0 {
		task.At = time.UnixMilli(c.AtMs)
	}
	return task
}

func plain(result tarry.Result) map[string]any {
	return map[string]any{"code": result.Code, "outcome": result.Outcome, "task": result.ID, "due_ms": result.DueMs, "deliveries": result.Deliveries}
}

func (c call) run() (map[string]any, error) {
	ctx, ref := context.Background(), tarry.Ref{Queue: c.Queue, Key: c.Key}
	switch c.Call {
	case "schedule":
		result, err := client.Schedule(ctx, c.schedule())
		return plain(result), err
	case "schedule_many":
		var tasks []tarry.Schedule
		for _, task := range c.Tasks {
			tasks = append(tasks, task.schedule())
		}
		results, err := client.ScheduleMany(ctx, tasks, c.Atomic)
		told := []map[string]any{}
		for _, result := range results {
			told = append(told, plain(result))
		}
		return map[string]any{"results": told}, err
	case "cancel":
		result, err := client.Cancel(ctx, ref, c.Withdraw)
		return plain(result), err
	case "move":
		if c.AtMs != 0 {
			result, err := client.MoveTo(ctx, ref, time.UnixMilli(c.AtMs))
			return plain(result), err
		}
		result, err := client.Move(ctx, ref, time.Duration(c.DelayMs)*time.Millisecond)
		return plain(result), err
	case "get":
		view, err := client.Get(ctx, ref)
		if view == nil {
			return map[string]any{"state": "unknown"}, err
		}
		return map[string]any{"state": view.State, "body": string(view.Body), "attributes": view.Attributes, "reason": view.Reason,
			"due_ms": view.DueMs, "deliveries": view.Deliveries}, err
	case "worker":
		return map[string]any{}, client.Worker(ctx, c.Queue, c.Concurrency, handle, tarry.WorkerOptions{
			Lease: time.Duration(c.LeaseMs) * time.Millisecond, Drain: time.Duration(c.DrainMs) * time.Millisecond})
	case "open":
		close(gate)
		return map[string]any{}, nil
	}
	panic("unknown call " + c.Call)
}

func answer(c call) {
	told, err := c.run()
	var refused *tarry.Error
	if errors.As(err, &refused) {
		told = map[string]any{"code": refused.Code, "message": refused.Error(), "outcome": ""}
		if refused.Result != nil {
			told["outcome"] = refused.Result.Outcome
		}
	} else if err != nil {
		panic(err)
	}
	told["id"] = c.ID
	tell(told)
}

func main() {
	timeout := 30 * time.Second
	if text := os.Getenv("TARRY_TEST_TIMEOUT_MS"); text != "" {
		timeout = ms(text)
	}
	var err error
	if client, err = tarry.Open("", tarry.Options{Timeout: timeout, Measure: measured}); err != nil {
		panic(err)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var c call
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		go answer(c)
	}
	client.Close()
}
