/** The few numbers that the tables need. */

/** The median, and the values between which 80 of 100 lie. */
export interface Spread {
  readonly median: number;
  /** A tenth of all is below. */
  readonly low: number;
  /** A tenth of all is above. */
  readonly high: number;
  /** How far off the median itself may be: half of its 95 % confidence interval, which is made of
   * order statistics, so that it holds whatever the distribution. Too few values: NaN. */
  readonly error: number;
}

/** The value below which a part of all lies; of none: NaN. */
export function quantile(values: ArrayLike<number>, part: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.round(part * (sorted.length - 1))] ?? NaN;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[Math.floor((sorted.length - 1) / 2)] ?? NaN;
  const high = sorted[Math.floor(sorted.length / 2)] ?? NaN;
  return (low + high) / 2;
}

export const spreadOf = (values: readonly number[]): Spread => ({
  median: median(values),
  low: quantile(values, 0.1),
  high: quantile(values, 0.9),
  error: medianErrorOf(values)
});

/** The median of n draws stands between the ranks n/2 ± 0.98 √n, 95 times of 100. */
function medianErrorOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const below = Math.round(
    (sorted.length - 1.96 * Math.sqrt(sorted.length)) / 2
  );
  const [low = NaN, high = NaN] =
    below < 1 ? [] : [sorted[below - 1], sorted.at(-below)];
  return (high - low) / 2;
}

/** Ratios are made within a round, where both saw the same machine; then their spread. */
export const ratioOf = (
  over: readonly number[],
  under: readonly number[]
): Spread =>
  spreadOf(
    over.flatMap((value, round) => {
      const other = under[round];
      return other === undefined ? [] : [value / other];
    })
  );
