"""Starts rLLM's unified trainer on a verifiers environment; written by `envwright train compile`."""

import hydra
import verifiers as vf
from examples.verifiers_env.workflow import VerifiersWorkflow
from omegaconf import OmegaConf
from rllm.data.dataset import DatasetRegistry
from rllm.trainer import AgentTrainer


@hydra.main(config_path="pkg://rllm.trainer.config", config_name="unified", version_base=None)
def main(config):
    chosen = OmegaConf.to_container(config.verifiers, resolve=True)
    environment = vf.load_environment(chosen["env_id"], **chosen.get("env_args", {}))
    name, most = chosen["dataset"], chosen.get("max_samples", -1)
    trainer = AgentTrainer(
        workflow_class=VerifiersWorkflow,
        workflow_args={"vf_env": environment, "sampling_args": chosen.get("sampling_args", {})},
        train_dataset=DatasetRegistry.register_dataset(name, environment.get_dataset(n=most), "train"),
        val_dataset=DatasetRegistry.register_dataset(name, environment.get_eval_dataset(n=most), "test"),
        config=config,
        backend=config.rllm.backend,
    )
    trainer.train()


if __name__ == "__main__":
    main()
