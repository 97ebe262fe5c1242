/**
 * A recording's sealed files in one file: for each, the header of its index and its seal, {@link lineBytes} bytes. It spares a
 * start the opening of every file: 30 cameras and 30 days are 130,000.
 *
 * Invariants
 * 1. Derived: whatever is missing, damaged or stale here is read from the files themselves. A thorough scan does not look at it.
 * 2. A line counts only if both its checksums hold and a file of its name is in the directory.
 * 3. Appended when a file is sealed, written anew at a start that finds more than half of it useless.
 */
import { appendFile, readFile, rename, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { codeOf } from "./failure.ts"
import {
  decodeHeaders,
  decodeSeal,
  encodeHeader,
  encodeSeal,
  headerBytes,
  type IndexHeader,
  recordBytes,
  type Seal,
} from "./index-file.ts"

export const summaryName = "sealed.sum"
const lineBytes = headerBytes + recordBytes

export interface SummaryLine {
  readonly header: IndexHeader
  readonly seal: Seal
}

const encodeLine = ({ header, seal }: SummaryLine): Buffer => Buffer.concat([encodeHeader(header), encodeSeal(seal)])

/** Lines by file id; none where there is no summary. */
export const readSummary = async (directory: string): Promise<ReadonlyMap<string, SummaryLine>> => {
  const lines = new Map<string, SummaryLine>()
  let bytes: Buffer
  try {
    bytes = await readFile(join(directory, summaryName))
  } catch (error) {
    if (codeOf(error) === "ENOENT") return lines
    throw error
  }
  const decode = decodeHeaders()
  for (let at = 0; at + lineBytes <= bytes.length; at += lineBytes) {
    const header = decode(bytes.subarray(at, at + headerBytes))
    const seal = decodeSeal(bytes.subarray(at + headerBytes, at + lineBytes))
    if (header !== null && seal !== null) lines.set(header.description.id, { header, seal })
  }
  return lines
}

/** Best effort: without the line the file is inspected at the next start. */
export const appendSummary = async (directory: string, line: SummaryLine): Promise<void> => {
  await appendFile(join(directory, summaryName), encodeLine(line)).catch(() => undefined)
}

/** Best effort, as {@link appendSummary}. */
export const replaceSummary = async (directory: string, lines: Iterable<SummaryLine>): Promise<void> => {
  const path = join(directory, summaryName)
  const bytes = Buffer.concat([...lines].map(encodeLine))
  await writeFile(`${path}.tmp`, bytes).then(() => rename(`${path}.tmp`, path)).catch(() => undefined)
}
