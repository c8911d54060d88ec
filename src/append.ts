/**
 * The one door of a store: texts of plants come in. The service hands over what it has checked; the
 * plant of a library's caller is checked here.
 */
import { ok as assert } from "node:assert";
import {
  newPlantOf,
  plantExpected,
  plantText,
  type NewPlant
} from "./plant.ts";
import {
  conflict,
  StoreError,
  type AppendJson,
  type Outcome,
  type PlantStore,
  type Receipt
} from "./store.ts";

/** The AppendJson behind each method that `methodsOf` has made. */
const ownOf = new WeakMap<object, AppendJson>();

/**
 * Returns a store's own AppendJson, or one that passes plants to a host's methods: a host may have
 * replaced a method of a store of ours, or have put a proxy before it.
 */
export function appendJsonOf(store: PlantStore): AppendJson {
  const { append, appendOnce = append } = store;
  const own = ownOf.get(append);
  return own && ownOf.get(appendOnce) === own
    ? own
    : (json, key) => appendToHost(store, json, key);
}

/** Returns the methods of a store that gives receipts; without keys, `appendOnce` is undefined. */
export function methodsOf(own: AppendJson, keepsKeys: boolean) {
  const append = async (plant: NewPlant): Promise<Receipt> => {
    const { receipt } = await own(checkedText(plant));
    assert(receipt, "a plant without a key is stored, and has a receipt");
    return receipt;
  };
  const appendOnce: PlantStore["appendOnce"] = async (plant, key) => {
    const json = checkedText(plant);
    if (!wholeKey.test(key))
      throw new StoreError("invalid", "a key is 16 bytes in base64url");
    const { isReplay } = await own(json, key);
    return isReplay ? "replayed" : "stored";
  };
  ownOf.set(append, own).set(appendOnce, own);
  return { append, appendOnce: keepsKeys ? appendOnce : undefined };
}

async function appendToHost(
  store: PlantStore,
  json: string,
  key?: string
): Promise<Outcome> {
  const plant = newPlantOf(json);
  const promise =
    key === undefined ? store.append(plant) : store.appendOnce?.(plant, key);

  // A host's own store may be JavaScript. Any other value would become a 200.
  if (typeof promise?.then !== "function") throw new TypeError(hostExpected);
  const result: unknown = await promise;
  if (key === undefined && (result === undefined || isReceipt(result)))
    return { json, receipt: result };
  if (key !== undefined && (result === "stored" || result === "replayed"))
    return { json, isReplay: result === "replayed" };
  throw new TypeError(hostExpected);
}

const hostExpected =
  "append of a store returns the promise of a receipt or of nothing, " +
  "and appendOnce that of 'stored' or 'replayed'";

const isReceipt = (value: unknown): value is Receipt =>
  typeof value === "object" &&
  value !== null &&
  "seq" in value &&
  typeof value.seq === "number";

/**
 * Returns an AppendJson that calls another one once for all calls with the same key and plant that
 * are in progress: these wait and share its outcome.
 *
 * @param roomIn returns how many records the queue still takes: as many calls may wait here
 * @throws StoreError `conflict` while a call with the key and another plant is in progress,
 *   `unknown` if there is no room to wait: the equal one may store the plant
 */
export function shareOutcomes(
  append: AppendJson,
  roomIn: () => number
): AppendJson {
  const inProgress = new Map<
    string,
    { json: string; done: Promise<Outcome> }
  >();

  // The calls that wait for any equal one. They keep no text of their own, but a disk that stalls
  // must not fill the memory with them.
  let waiting = 0;

  const waitFor = async (done: Promise<Outcome>) => {
    if (waiting >= roomIn())
      throw new StoreError("unknown", "too many calls wait for an equal one");
    waiting++;
    try {
      const { json } = await done;
      return { json, isReplay: true };
    } finally {
      waiting--;
    }
  };

  return (json, key) => {
    if (key === undefined) return append(json);
    const first = inProgress.get(key);
    if (first) {
      if (first.json !== json) throw conflict();
      return waitFor(first.done);
    }

    // Frees the key before a caller learns the outcome.
    const done = append(json, key).finally(() => inProgress.delete(key));
    inProgress.set(key, { json, done });
    return done;
  };
}

/** 16 bytes in base64url. */
export const keyForm = String.raw`[\w-]{21}[AQgw]`;
const wholeKey = new RegExp(`^${keyForm}$`);

/**
 * The most bytes of a plant's text, so that its line has at most 64 MiB.
 *
 * It is nearly four times the largest body that can be set: only a library's plant can be longer.
 */
export const textBytesMax = 64 * 1024 * 1024 - 160;

/** @throws StoreError `invalid` for a plant that cannot be stored */
function checkedText(plant: NewPlant) {
  let text: string | undefined;
  try {
    text = plantText(plant, textBytesMax);
  } catch (cause) {
    throw new StoreError("invalid", `a plant must have ${plantExpected}`, {
      cause
    });
  }
  if (text !== undefined) return text;
  throw new StoreError(
    "invalid",
    `a plant has at most ${textBytesMax} bytes in the journal`
  );
}
