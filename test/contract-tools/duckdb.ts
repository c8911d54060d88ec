/** DuckDB's library reads a journal by the README's query. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { DuckDBInstance } from "@duckdb/node-api";
import { openJournal } from "../../src/index.ts";
import { recipeOf } from "../support/recipes.ts";
import { temporaryFolder } from "../support/support.ts";

test("DuckDB reads every digit of every id", async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const journal = await openJournal(path);
  const ids = [-9223372036854775808n, 9007199254740993n, 9223372036854775807n];
  for (const id of ids) await journal.append({ id, name: "Fern" });
  await journal.close();

  const [, query = ""] = /-c "([^"]+)"/.exec(recipeOf("duckdb")) ?? [];
  assert.match(query, /'plants\.ndjson'/);
  const database = await (await DuckDBInstance.create()).connect();
  const rows = await database.runAndReadAll(
    query.replace("'plants.ndjson'", `'${path}'`)
  );
  assert.deepEqual(
    rows.getRows(),
    ids.map((id) => [id, "Fern"])
  );
  database.closeSync();
});
