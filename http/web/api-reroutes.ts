/** What the page of failover asks of the node. */
import { etag } from "#http/contract/conventions.ts"
import type {
  EffectiveFailoverSettings,
  FailoverSettingsUpdate,
  Guardian,
  ProtectionCreate,
  ProtectionView,
} from "#schema/federation-failover.ts"
import type { ConfigurationConflict, ConflictSide } from "#schema/federation-journal.ts"
import type { RecordBackJob } from "#schema/federation-recordback.ts"
import { call } from "./api.ts"

/** Older ones are read by other programs. */
const newest = { limit: 50 }

export const failoverStatus = () => call((api) => api.federationFailover.failoverStatus())
export const listProtections = async () => (await call((api) => api.federationFailover.protections())).items
export const listGuardians = async () => (await call((api) => api.federationFailover.guardian())).items
/** The newest fifty. */
export const listReroutes = async () => (await call((api) => api.federationFailover.reroutes({ query: newest }))).items
/** The newest fifty. */
export const listRecordBacks = async () =>
  (await call((api) => api.federationRecordback.listJobs({ query: newest }))).items

/** The oldest fifty: who decides them sees the next. */
export const listConflicts = async () =>
  (await call((api) => api.federationFailover.configurationConflicts({ query: newest }))).items
export const resolveConflict = ({ id }: ConfigurationConflict, side: ConflictSide) =>
  call((api) => api.federationFailover.resolveConflict({ params: { id }, headers: {}, payload: { side } }))

export const protect = (payload: ProtectionCreate) =>
  call((api) => api.federationFailover.protect({ headers: {}, payload }))
export const takeBackControl = () =>
  call((api) => api.federationFailover.takeBackControl({ payload: { guardianIsOff: true } }))
export const grantGuardian = ({ nodeId }: Guardian, granted: boolean) =>
  call((api) => api.federationFailover.grantGuardian({ params: { nodeId }, payload: { granted } }))
export const takeOver = ({ id }: ProtectionView, homeIsOff: boolean) =>
  call((api) => api.federationFailover.takeover({ params: { id }, headers: {}, payload: { homeIsOff } }))
export const failBack = ({ id }: ProtectionView) =>
  call((api) => api.federationFailover.failback({ params: { id }, headers: {}, query: {} }))
export const failBackWithout = ({ id }: ProtectionView) =>
  call((api) => api.federationFailover.failback({ params: { id }, headers: {}, query: { withoutChanges: "true" } }))
export const discardChanges = ({ id }: ProtectionView) =>
  call((api) => api.federationFailover.discardChanges({ params: { id }, headers: {} }))
export const holdDrill = ({ id }: ProtectionView) =>
  call((api) => api.federationFailover.drill({ params: { id }, headers: {} }))
export const refreshSnapshot = ({ id }: ProtectionView) =>
  call((api) => api.federationFailover.snapshot({ params: { id }, headers: {} }))
export const release = ({ id }: ProtectionView) => call((api) => api.federationFailover.release({ params: { id } }))

export const steer = ({ id }: RecordBackJob, verb: "pause" | "resume" | "retry") =>
  call((api) => {
    const params = { params: { id } }
    if (verb === "pause") return api.federationRecordback.pauseJob(params)
    return verb === "resume" ? api.federationRecordback.resumeJob(params) : api.federationRecordback.retryJob(params)
  })

export const failoverSettings = async () => (await call((api) => api.federationFailover.failoverSettings())).body
export const updateFailoverSettings = async ({ version }: EffectiveFailoverSettings, payload: FailoverSettingsUpdate) =>
  (await call((api) =>
    api.federationFailover.updateFailoverSettings({ headers: { "if-match": etag(version) }, payload })
  )).body
