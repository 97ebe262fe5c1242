/**
 * Cameras of paired nodes, as they are known here, with what their node tells of them now.
 *
 * Invariants
 * 1. A camera that this node serves itself at the moment, because theirs failed, is listed once: as this node's.
 * 2. Of a node that does not answer the channels are those it told of last, without streams, and it is said why.
 */
import type { FederatedChannel } from "#schema/bff-federation.ts"
import { Camera } from "#schema/camera.ts"
import type { NodeId } from "#schema/common.ts"
import { Schema } from "effect"
import { listNodes } from "./api-nodes.ts"
import { messageOf, readFile } from "./api.ts"
import { listFederated } from "./footage.ts"
import type { WallPicture } from "./wall-pictures.ts"

export interface RemoteNode {
  readonly nodeId: NodeId
  readonly name: string
  /** Why nothing is known of its cameras at the moment; empty where it answers. */
  readonly trouble: string
  readonly pictures: ReadonlyArray<WallPicture>
}

const decodeCameras = Schema.decodeUnknownPromise(Schema.toCodecJson(Schema.Struct({ items: Schema.Array(Camera) })))

/** By the other node itself, which shows what this one may see. */
const camerasOf = async (nodeId: NodeId): Promise<ReadonlyArray<Camera>> => {
  const path = `/bff/api/v1/federation-config/${nodeId}/camera/api/v1/cameras?limit=500`
  const answer = await readFile(path, () => undefined, AbortSignal.timeout(12_000))
  return (await decodeCameras(JSON.parse(await answer.text()))).items
}

const pictureOf = (
  one: FederatedChannel,
  node: string,
  cameras: ReadonlyArray<Camera>,
  trouble: string,
): WallPicture => {
  const camera = cameras.find(({ id }) => id === one.remoteCameraId)
  const channel = camera?.channels.find(({ id }) => id === one.remoteChannelId)
  const of = (camera?.channels.length ?? 1) > 1 ? `${one.cameraName}: ${one.channelName}` : one.cameraName
  const token = one.recordings.find(({ role }) => role === "main") ?? one.recordings[0]
  return {
    id: one.id,
    cameraId: one.remoteCameraId,
    name: `${of} · ${node}`,
    node,
    status: channel === undefined ? "offline" : one.active ? channel.status : "disabled",
    reason: channel === undefined ? trouble || "Its node does not tell of it any more" : channel.reason,
    streams: channel?.streams ?? [],
    recording: token === undefined ? null : { id: null, recordingToken: token.recordingToken },
  }
}

/** `mayListNodes`: names of nodes are for those who may see nodes. `own`: channels that this node has itself. */
export const listRemote = async (
  mayListNodes: boolean,
  own: ReadonlySet<string>,
): Promise<ReadonlyArray<RemoteNode>> => {
  const channels = (await listFederated()).filter(({ present, remoteChannelId }) =>
    present && !own.has(remoteChannelId)
  )
  if (channels.length === 0) return []
  const nodes = mayListNodes ? await listNodes() : []
  return Promise.all([...Map.groupBy(channels, ({ nodeId }) => nodeId)].map(async ([nodeId, some]) => {
    const name = nodes.find((node) => node.nodeId === nodeId)?.name ?? "another node"
    const told = await camerasOf(nodeId).then(
      (cameras) => ({ cameras, trouble: "" }),
      (failure: unknown) => ({ cameras: [], trouble: messageOf(failure) }),
    )
    return {
      nodeId,
      name,
      trouble: told.trouble,
      pictures: some.map((one) => pictureOf(one, name, told.cameras, told.trouble))
        .toSorted((one, other) => one.name.localeCompare(other.name)),
    }
  }))
}

/** How often they are asked for: each time every node is. */
export const remoteEveryMs = 15_000
