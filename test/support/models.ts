/** Slow readers of what I-JSON and int64 are, independent of src. */
/** Returns what I-JSON forbids in a text that JSON.parse accepts, from its tokens. */
export function faultsOf(
  text: string,
  nestingMax: number
): readonly ("nesting" | "surrogate" | "duplicate")[] {
  const faults: ("nesting" | "surrogate" | "duplicate")[] = [];
  const stack: (Set<string> | undefined)[] = [];
  let isName = false;
  for (const [word] of text.matchAll(
    /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g
  )) {
    const names = stack.at(-1);
    if (word === "{" || word === "[") {
      stack.push(word === "{" ? new Set() : undefined);
      isName = word === "{";
      if (stack.length > nestingMax) faults.push("nesting");
    } else if (word === "}" || word === "]") {
      stack.pop();
    } else if (word === ",") {
      isName = names !== undefined;
    } else if (word === ":") {
      isName = false;
    } else if (word.startsWith('"')) {
      const inner = String(JSON.parse(word));
      if (!inner.isWellFormed()) faults.push("surrogate");
      if (!isName) continue;
      if (names?.has(inner)) faults.push("duplicate");
      names?.add(inner);
    }
  }
  return faults;
}

/** The int64 that a JSON number is, as the fraction of two BigInts. */
export function integerOf(text: string): bigint | undefined {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text);
  const [, sign = "", whole = "", fraction = "", power = "0"] = match ?? [];
  const digits = BigInt(whole + fraction);
  if (digits === 0n) return 0n;
  const exponent = BigInt(power.replace(/^\+/, "")) - BigInt(fraction.length);
  // No number of a short body reaches int64, or an integer, over so many places.
  if (exponent > 100_000n || exponent < -100_000n) return undefined;
  const up = digits * (exponent > 0n ? 10n ** exponent : 1n);
  const down = exponent < 0n ? 10n ** -exponent : 1n;
  if (up % down !== 0n) return undefined;
  const integer = sign === "-" ? -(up / down) : up / down;
  return BigInt.asIntN(64, integer) === integer ? integer : undefined;
}
