/** Writes the computed tables of the documents: `node --import tsx test/repository/update.ts`. */
import { updateTables } from "./tables.ts";

updateTables();
