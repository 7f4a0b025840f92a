-- Managed by gpuadmin. slurmctld asks it whenever somebody submits or changes a job.

-- What an admin's exception is called, its QOS as well, and the partition where it runs on nodes of groups.
local EXCEPTION = "exception"
-- Of slurm.h: its first byte is the state, the others are flags.
local RUNNING = 1

-- A job that names no partition runs where its group comes first, or else nobody does; then beside others.
local function find_partitions(partitions, names)
   local found = {}
   for _, name in ipairs(names) do
      -- one that only its jobs keep takes no further ones
      if partitions[name] ~= nil and partitions[name].state_up % 2 == 1 then
         found[#found + 1] = name
      end
   end
   return #found > 0 and table.concat(found, ",") or nil
end

function slurm_job_submit(job, partitions, uid)
   -- it is known as root's before it has the QOS, which Slurm gives to no job that is being submitted
   if uid == 0 and job.name == EXCEPTION then
      job.admin_comment = EXCEPTION
      job.partition = find_partitions(partitions, {"gpu", EXCEPTION})
   elseif job.partition == nil then
      local own = find_partitions(partitions, {"own-" .. (job.account or job.default_account or "")})
      job.partition = find_partitions(partitions, {own or "gpu", "guest"})
   end
   return slurm.SUCCESS
end

-- An admin's exception has no limits. Its person may end it, not have it started again or make more of it.
function slurm_job_modify(change, job, partitions, uid)
   if uid == 0 or (job.qos ~= EXCEPTION and job.admin_comment ~= EXCEPTION) then
      return slurm.SUCCESS
   end
   -- the job itself says so, as its person, once its GPUs are open; Slurm changes little else of a job that runs
   if change.comment == "open" and job.job_state % 256 == RUNNING and change.requeue == slurm.NO_VAL16
      and change.time_limit == slurm.NO_VAL and change.min_nodes == slurm.NO_VAL and change.tres_per_node == nil
      and change.qos == nil then
      return slurm.SUCCESS
   end
   slurm.log_user("an admin gave you this job: ask them to change it")
   return slurm.ERROR
end
