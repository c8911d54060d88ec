/** Requests per second as an SVG: bars are medians, whiskers hold 80 of 100 rounds. */
import { numbersOf, type Comparison } from "./rounds.ts";
import { spreadOf } from "./statistics.ts";
import type { Variant } from "./variants.ts";

const [width, left, right, top, rowHeight, barHeight] = [
  860, 330, 130, 64, 34, 18
];

/** Colours that are read on white and on black, and fonts that are there. */
const style = `
  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .title { font-size: 16px; font-weight: 600; }
  .note { font-size: 12px; fill: #57606a; }
  .none { fill: #8c959f; } .durable { fill: #1a7f37; } .file { fill: #9a6700; }
  .range { stroke: #24292f; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .note { fill: #9198a1; } .range { stroke: #e6edf3; }
    .none { fill: #6e7681; } .durable { fill: #3fb950; } .file { fill: #d29922; }
  }`;

const escape = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
const shown = (value: number): string =>
  Math.round(value).toLocaleString("en-US");

export function chartOf(
  comparison: Comparison,
  variants: readonly Variant[],
  facts: string
): string {
  // The fixed bytes are the generator's limit, no server to compare with.
  const rows = variants
    .filter(({ key }) => key !== "raw")
    .map(({ key, name, keeps, skipped }) => ({
      label: name,
      kind: keeps === "nothing" || keeps === "durable" ? keeps : "file",
      skipped,
      ...spreadOf(numbersOf(comparison, key, "perSecond"))
    }));
  const most = Math.max(
    ...rows.flatMap(({ high }) => (Number.isFinite(high) ? [high] : []))
  );
  const scale = (value: number): number =>
    ((width - left - right) * value) / most;
  const height = top + rows.length * rowHeight + 44;
  const bars = rows.map(
    ({ label, kind, skipped, median, low, high }, index) => {
      const y = top + index * rowHeight;
      const middle = y + barHeight / 2;
      const name = `<text x="${left - 10}" y="${middle + 4.5}" text-anchor="end">${escape(
        label
      )}</text>`;
      if (skipped !== undefined || !Number.isFinite(median)) {
        return `${name}\n<text class="note" x="${left}" y="${middle + 4.5}">not measured</text>`;
      }
      const [from, to] = [
        (left + scale(low)).toFixed(1),
        (left + scale(high)).toFixed(1)
      ];
      const colour = kind === "nothing" ? "none" : kind;
      return `${name}
<rect class="${colour}" x="${left}" y="${y}" width="${scale(median).toFixed(1)}" height="${
        barHeight
      }"/>
<path class="range" d="M${from} ${middle}H${to}M${from} ${y + 4}v${barHeight - 8}M${to} ${y + 4}v${
        barHeight - 8
      }"/>
<text x="${(left + scale(high) + 8).toFixed(1)}" y="${middle + 4.5}">${shown(median)}</text>`;
    }
  );
  const legend = [
    ["durable", "durable before the answer"],
    ["file", "a file, not flushed"],
    ["none", "keeps nothing"]
  ].map(([kind, text], index) => {
    const x = left + index * 180;
    return `<rect class="${kind}" x="${x}" y="${height - 30}" width="12" height="12"/>
<text class="note" x="${x + 18}" y="${height - 19.5}">${text}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img">
<title>Requests per second at 64 connections</title>
<style>${style}
</style>
<text class="title" x="16" y="26">POST /plants: requests per second at 64 connections</text>
<text class="note" x="16" y="46">Medians; lines: 80 of 100 rounds. ${escape(facts)}</text>
${bars.join("\n")}
${legend.join("\n")}
</svg>
`;
}
