/** The few figures that the tables need. */

export interface Range {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** The value below which a part of all lies; of none: NaN. */
export function quantile(values: ArrayLike<number>, part: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? NaN;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[Math.floor((sorted.length - 1) / 2)] ?? NaN;
  const high = sorted[Math.floor(sorted.length / 2)] ?? NaN;
  return (low + high) / 2;
}

export const rangeOf = (values: readonly number[]): Range =>
  ({ median: median(values), min: Math.min(...values), max: Math.max(...values) });

/** Ratios are made within a round, where both saw the same machine; then their range. */
export const ratioOf = (over: readonly number[], under: readonly number[]): Range =>
  rangeOf(over.flatMap((value, round) => {
    const other = under[round];
    return other === undefined ? [] : [value / other];
  }));
