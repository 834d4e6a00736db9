#!/usr/bin/env bash
# Run wordle-skyrl for SkyRL: SKYRL=/where/SkyRL/is configs/rl/wordle-skyrl.sh
# Compiled from registry.yaml (runs.wordle-skyrl) by `envwright train compile`; do not edit by hand.
# verifiers: none: it needs RolloutInput (0.1.8 and later) and process_env_results_vllm (0.1.7 and before).
# Arguments of this script are passed on to the trainer.
set -euo pipefail
: "${SKYRL:?the folder of a checkout of SkyRL}"
SKYRL=$(cd "$SKYRL" && pwd)
VENV="$SKYRL/.venv"
export VIRTUAL_ENV="$VENV" UV_PROJECT_ENVIRONMENT="$VENV"
mkdir -p outputs
{ [[ " $* " == *" --clean "* && " $* " != *" --resume"* ]] || [ ! -d outputs/wordle-skyrl ]; } && rm -f outputs/wordle-skyrl.commit.txt
[ -s outputs/wordle-skyrl.commit.txt ] || { git rev-parse --verify HEAD && git status --porcelain -- registry.yaml environments; } > outputs/wordle-skyrl.commit.txt || true
mkdir -p outputs/wordle-skyrl
exec > >(tee -a outputs/wordle-skyrl/console.log) 2>&1
ROOT=$PWD
cd "$SKYRL"
uv run python examples/train_integrations/verifiers/install_environment.py primeintellect/wordle@0.1.8
uv run --with verifiers python examples/train_integrations/verifiers/prepare_dataset.py --env_id wordle --output_dir data/wordle-skyrl

arguments=(
  'data.train_data=["data/wordle-skyrl/train.parquet"]'  # written by prepare_dataset.py
  'data.val_data=["data/wordle-skyrl/validation.parquet"]' # written by prepare_dataset.py
  environment.env_class=wordle                           # runs.wordle-skyrl.environments[0].id
  trainer.algorithm.advantage_estimator=grpo             # default of algorithm
  trainer.policy.model.path=Qwen/Qwen2.5-1.5B-Instruct   # runs.wordle-skyrl.model
  trainer.policy.model.lora.rank=16                      # runs.wordle-skyrl.lora.rank
  trainer.policy.model.lora.alpha=32                     # runs.wordle-skyrl.lora.alpha
  trainer.policy.optimizer_config.lr=1e-05               # runs.wordle-skyrl.learning_rate
  trainer.policy.optimizer_config.weight_decay=0.0       # default of weight_decay
  trainer.placement.policy_num_nodes=1                   # default of gpus.train_nodes
  trainer.placement.policy_num_gpus_per_node=1           # default of gpus.train
  trainer.placement.ref_num_nodes=1                      # default of gpus.train_nodes
  trainer.placement.ref_num_gpus_per_node=1              # default of gpus.train
  trainer.train_batch_size=16                            # runs.wordle-skyrl.batch_size; tasks: 128 rollouts / 8
  trainer.policy_mini_batch_size=16                      # runs.wordle-skyrl.batch_size; one update per step
  trainer.micro_train_batch_size_per_gpu=32              # divides the rollouts of one GPU
  trainer.micro_forward_batch_size_per_gpu=32            # divides the rollouts of one GPU
  trainer.max_training_steps=100                         # runs.wordle-skyrl.max_steps
  trainer.epochs=100                                     # at most one per step: the steps decide
  trainer.eval_interval=-1                               # default of eval.interval
  trainer.eval_before_train=false                        # default of eval.skip_first
  trainer.ckpt_interval=50                               # runs.wordle-skyrl.checkpoints.interval; every epoch, and the last step
  trainer.hf_save_interval=50                            # runs.wordle-skyrl.checkpoints.interval; as vLLM loads it
  trainer.export_path=outputs/wordle-skyrl/exports       # models; ~/exports is the trainer's own
  trainer.ckpt_path=outputs/wordle-skyrl/checkpoints     # checkpoints
  trainer.logger=console                                 # default of wandb
  trainer.project_name=envwright                         # default of wandb.project
  trainer.run_name=wordle-skyrl                          # the run's name
  trainer.max_prompt_length=3072                         # default of seq_len; less sampling.max_tokens
  generator.inference_engine.num_engines=1               # training and sampling share the GPUs
  generator.inference_engine.tensor_parallel_size=1      # default of gpus.tensor_parallel
  generator.max_input_length=3072                        # default of seq_len; less sampling.max_tokens
  generator.n_samples_per_prompt=8                       # runs.wordle-skyrl.group_size
  generator.sampling_params.max_generate_length=1024     # runs.wordle-skyrl.sampling.max_tokens
  generator.sampling_params.temperature=1.0              # default of sampling.temperature
)

exec uv run --extra fsdp -m examples.train_integrations.verifiers.entrypoints.main_verifiers "${arguments[@]}" "$@"
