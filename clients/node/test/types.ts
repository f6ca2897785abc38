// types.ts: compiled, not run (tests/e2e/clients_node_test.py): each call is used, and what is wrong does not compile.
import { Aborted, Client, Dead, NotDone, OutcomeUnknown, Release, Result, Retry, Task, View } from "../index";

export async function program(): Promise<void> {
  const client = new Client("ws://a:7272,ws://b:7272", { tokenFile: "/etc/token", timeoutMs: 1000, measure: (name, value, labels) => void [name, value, labels] });
  const result: Result = await client.schedule("orders", { key: "1", delayMs: 1000, json: { order: 1 } });
  await client.schedule("orders", { at: new Date(), body: new Uint8Array(1), onConflict: "replace" });
  const many: Result[] = await client.scheduleMany([{ queue: "orders", body: "a" }], { atomic: true });
  await client.cancel("orders", "1", { withdraw: true });
  await client.cancel({ id: result.id });
  await client.move("orders", "1", { delayMs: 5 });
  const view: View | null = await client.get("orders", "1");
  await client.worker(["a", "b"], 20, async (task: Task, { signal }) => {
    if (signal.aborted || task.isLeaseLost) throw new Release();
    if (task.attempt > 3) throw new Dead(`no hope: ${view?.reason}`);
    throw new Retry("later", { delayMs: 10 });
  }, { prefetch: 100, around: (task, handle) => handle() });
  for (const error of [new NotDone("x"), new Aborted("x"), new OutcomeUnknown("x")]) console.log(error.code, many.length);
  await client.close();

  // @ts-expect-error a duration is a number
  await client.schedule("orders", { delayMs: "30m" });
  // @ts-expect-error delayMs or at
  await client.schedule("orders", { delayMs: 1, at: 2 });
  // @ts-expect-error body or json
  await client.schedule("orders", { body: "a", json: 1 });
  // @ts-expect-error no such state
  if (view?.state === "lost") return;
  // @ts-expect-error a move says when
  await client.move("orders", "1");
}
