/** The recipes that watch a server: promtool accepts and tries those for Prometheus and Grafana,
 * every metric and error number that they name exists, and the container's health check works. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { catalogue } from "../../src/http/errors.ts";
import { metricTable } from "../../src/program/serving/metrics.ts";
import { adminOf, pageOf, statusOf, stranger } from "../support/operator.ts";
import { recipeOf } from "../support/recipes.ts";
import { plant } from "../support/requests.ts";
import { root, startProcess, temporaryFolder } from "../support/support.ts";
import { missing } from "../support/tools.ts";
import { seconds } from "../support/until.ts";

const folder = join(root, "src", "program", "recipes");
const textOf = (name: string): string =>
  readFileSync(join(folder, name), "utf8");
const dashboard = JSON.parse(textOf("grafana.json")) as {
  readonly panels: readonly {
    readonly targets?: readonly { readonly expr: string }[];
  }[];
};
/** The dashboard's queries, with its variables replaced by values. */
const queries = dashboard.panels.flatMap(({ targets = [] }) =>
  targets.map(({ expr }) =>
    expr.replaceAll("$__rate_interval", "1m").replaceAll("$instance", "a")
  )
);

const skip = missing(["promtool", "--version"]);
/** What promtool finds: nothing, if all is well. JSON is YAML, too. */
function promtool(...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync("promtool", args, {
    encoding: "utf8"
  });
  return status === 0 ? "" : `${stdout}${stderr}`;
}
function written(name: string, value: object): string {
  const path = join(temporaryFolder(), name);
  writeFileSync(path, JSON.stringify(value));
  return path;
}

test("the recipes name metrics and errors that exist", () => {
  const unknownIn = (text: string): readonly string[] => [
    ...[...text.matchAll(/\b(?:plant_store|process)_\w+/g)]
      .map(([name]) => name)
      .filter(
        (name) =>
          !Object.entries(metricTable).some(
            ([metric, [type]]) =>
              name === metric ||
              (type === "histogram" &&
                name.replace(/_(?:bucket|sum|count)$/, "") === metric)
          )
      ),
    ...[...text.matchAll(/error=~?\\?"(\d+)/g)]
      .map(([, error]) => Number(error))
      .filter(
        (error) => !Object.values(catalogue).some(([known]) => known === error)
      )
      .map(String)
  ];
  assert.deepEqual(
    unknownIn(`${textOf("alerts.yml")}${textOf("grafana.json")}`),
    []
  );
  assert.deepEqual(
    unknownIn('process_tea plant_store_build_info_sum{error="50399"}'),
    ["process_tea", "plant_store_build_info_sum", "50399"],
    "the control"
  );
});

test(
  "promtool accepts the scrape configuration, the rules and the dashboard's queries",
  { skip },
  () => {
    assert.equal(
      promtool("check", "config", join(folder, "prometheus.yml")),
      ""
    );
    const check = (exprs: readonly string[]): string =>
      promtool(
        "check",
        "rules",
        written("rules.yml", {
          groups: [
            {
              name: "dashboard",
              rules: exprs.map((expr, index) => ({
                record: `query${index}`,
                expr
              }))
            }
          ]
        })
      );
    assert.ok(queries.length >= 12);
    assert.equal(check(queries), "");
    assert.match(
      check([...queries, "rate(plant_store_queue_records)"]),
      /expected type range/
    );
  }
);

test("promtool finds no fault in the metrics", { skip }, async () => {
  const server = await startProcess({ args: ["--admin", "0"] });
  for (const bytes of [plant, stranger]) await statusOf(server, bytes);
  const { body } = await pageOf(adminOf(server), "/metrics");
  await server.end();
  const check = (input: string) =>
    spawnSync("promtool", ["check", "metrics"], { input, encoding: "utf8" });
  const { status, stdout, stderr } = check(body);
  assert.deepEqual([status, stdout, stderr], [0, "", ""]);
  const wrong = check("# TYPE a_total gauge\na_total 1\n");
  assert.notEqual(wrong.status, 0, "the control");
});

const requests = ([error]: readonly [number, ...unknown[]]): string =>
  `plant_store_http_requests_total{status="503",error="${error}"}`;
const bucket = (le: string): string =>
  `plant_store_append_seconds_bucket{le="${le}"}`;
/** Each alert: the minute in which it fires, and series that are well up to minute 10. */
const alerts: Readonly<
  Record<string, readonly [number, Readonly<Record<string, string>>]>
> = {
  PlantStoreDown: [12, { up: "1x10 0x20" }],
  PlantStoreRestarts: [12, { process_start_time_seconds: "5x10 660 720x20" }],
  PlantStoreOlderJournal: [
    11,
    {
      plant_store_journal_records: "50x10 30x20",
      plant_store_journal_rotations_total: "1x30"
    }
  ],
  PlantStoreNotReady: [12, { plant_store_ready: "1x10 0x20" }],
  PlantStoreNoSpace: [11, { [requests(catalogue.full)]: "0x10 1x20" }],
  PlantStoreUnreachable: [
    11,
    { [requests(catalogue.unreachable)]: "0x10 1x20" }
  ],
  PlantStoreUnknownOutcome: [
    11,
    { [requests(catalogue.unknown)]: "0x10 1x20" }
  ],
  PlantStoreSlowAppend: [
    21,
    {
      [bucket("0.1")]: "0+100x10 1000x20",
      [bucket("1")]: "0+100x10 1000x20",
      [bucket("+Inf")]: "0+100x10 1050+50x20"
    }
  ],
  PlantStoreStuck: [
    13,
    {
      plant_store_queue_records: "5x30",
      plant_store_append_seconds_count: "0+100x10 1000x20"
    }
  ],
  PlantStoreConnectionsRefused: [
    11,
    { plant_store_connections_refused_total: "0x10 1x20" }
  ],
  PlantStoreReloadFailed: [
    11,
    { plant_store_last_reload_successful: "1x10 0x20" }
  ],
  // The clock of promtool begins with 1970: 14 days and 10 minutes later.
  PlantStoreCertificateEnds: [
    11,
    { plant_store_tls_not_after_timestamp_seconds: "1210200x30" }
  ]
};

test("each alert fires in its minute, alone and not before", { skip }, () => {
  const names = [...textOf("alerts.yml").matchAll(/alert: (\w+)/g)].map(
    ([, name = ""]) => name
  );
  assert.deepEqual(Object.keys(alerts).sort(), names.toSorted());
  const labelled = (metric: string): string =>
    metric
      .replace(
        /\{|$/,
        (found) => `{job="plant-store",instance="a"${found === "{" ? "," : "}"}`
      )
      .replace(/\}.*/, "}");
  const check = (late: number): string =>
    promtool(
      "test",
      "rules",
      written("test.yml", {
        rule_files: [join(folder, "alerts.yml")],
        evaluation_interval: "15s",
        tests: Object.entries(alerts).map(([name, [minute, series]]) => ({
          interval: "1m",
          input_series: Object.entries(series).map(([metric, values]) => ({
            series: labelled(metric),
            values
          })),
          promql_expr_test: [
            [minute - 1],
            [minute, { labels: `{alertname="${name}"}`, value: 1 }]
          ].map(([at = 0, ...samples]) => ({
            eval_time: `${Number(at) + late}m`,
            exp_samples: samples,
            expr: 'count by (alertname) (ALERTS{alertstate="firing"})'
          }))
        }))
      })
    );
  assert.equal(check(0), "");
  for (const late of [-1, 1])
    assert.match(check(late), /FAILED/, "the control");
});

/** Series of a server that is well. */
const well: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "it rotates": {
    journal_records: "50x10 3x5 1x20",
    journal_rotations_total: "1x10 2x5 3x20"
  },
  "it restarts": {
    journal_records: "50x10 50x20",
    journal_rotations_total: "3x10 0x20"
  },
  "it stores plants": {
    journal_records: "0+5x30",
    journal_rotations_total: "0x30"
  },
  "its queue is never empty": {
    "queue_records": "5x30",
    "append_seconds_count": "0+1x30"
  },
  "it is idle": {
    "queue_records": "0x30",
    "append_seconds_count": "7x30"
  }
};

test("no alert fires at a server that is well", { skip }, () => {
  const check = (series: Readonly<Record<string, string>>): string =>
    promtool(
      "test",
      "rules",
      written("test.yml", {
        rule_files: [join(folder, "alerts.yml")],
        evaluation_interval: "15s",
        tests: [
          {
            interval: "1m",
            input_series: Object.entries(series).map(([name, values]) => ({
              series: `plant_store_${name}`,
              values
            })),
            promql_expr_test: [12, 15, 25].map((at) => ({
              expr: "ALERTS",
              eval_time: `${at}m`,
              exp_samples: []
            }))
          }
        ]
      })
    );
  for (const [what, series] of Object.entries(well))
    assert.equal(check(series), "", what);
  assert.match(
    check({ journal_records: "50x10 3x20", journal_rotations_total: "1x30" }),
    /FAILED/,
    "the control"
  );
});

test("the container's health check succeeds beside a server, and fails when it has gone", async () => {
  const [, place = "", check = "[]"] =
    /^ENV PLANTS_ADMIN=(\d+)\nHEALTHCHECK [^]*CMD (\[.*\])$/m.exec(
      recipeOf("healthcheck")
    ) ?? [];
  const server = await startProcess({ args: ["--admin", "0"] });
  const [admin] = server
    .events()
    .flatMap(({ admin: url }) => (url ? [new URL(`${url}`)] : []));
  const [, ...args] = JSON.parse(
    check.replaceAll(place, admin?.port ?? "")
  ) as readonly string[];
  const isWell = () =>
    spawnSync(process.execPath, args, { timeout: seconds(60) }).status;
  assert.equal(isWell(), 0);
  await server.end();
  assert.equal(isWell(), 1);
});
